# SPDX-License-Identifier: Apache-2.0
# wav2vec 2.0 base (Baevski et al., 2020) with a head of 32 letters: seven convolutions over raw sound, a grouped convolution with
# weight norm for positions, twelve layers of attention. 94,396,320 parameters; the vector that hides frames is not used here.
# Trained on a letter for each frame.
include "std.dsl"
dim batch = 8, frames = 49, kframes = frames, letters = 32, narrow = 512, layers = 12, embed = 768, heads = 12
dim head = embed // heads, ffn = 4 * embed, bands = 16, each = embed // bands, result = each
axis time, win

layer listen(x[batch, time, chan]) -> [batch, time, chan] {
  x = c0:conv1d[time, chan](x, size[narrow], 10, 5, pad = 0, bias = false)
  x = gelu(groupnorm[time, chan](x, groups = size[narrow]))
  repeat k in (3, 3, 3, 3, 2, 2) { x = gelu(c:conv1d[time, chan](x, size[narrow], k, 2, pad = 0, bias = false)) }
  return x
}
layer places(x[batch, frames, embed]) -> [batch, frames, embed] {
  param v[win = 128, each, bands, result] = normal(0.02)
  param g[win = 128] = ones
  param b[embed] = zeros
  w = g * v * rsqrt(sum[each, bands, result](v * v))
  y = window[frames, win](x[embed -> (bands, each)], 128, 1, (64, 63)) @(win, each) w
  return gelu(y[(bands, result) -> embed] + b)
}
layer attention(x[batch, frames, embed]) -> [batch, frames, embed] {
  q, k, v = wq:linear[embed, (heads, head)](x), wk:linear[embed, (heads, head)](x), wv:linear[embed, (heads, head)](x)
  return wo:linear[(heads, head), embed](attend[frames, kframes, head](q, k[frames -> kframes], v[frames -> kframes], scale = head ** -0.5))
}
layer mlp(x[batch, frames, embed]) -> [batch, frames, embed] { return x |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed] }

model wav2vec(sound[batch, time = 320 * frames + 80, chan = 1]) -> [batch, frames, letters] {
  param hidden[embed] = uniform(0, 1)
  x = listen(sound)[time -> frames, chan -> narrow] |> n0:layernorm[narrow] |> proj:linear[narrow, embed]
  x = n1:layernorm[embed](x + places(x) + 0 * hidden)
  repeat h in layers {
    x = n1:layernorm[embed](x + attention(x))
    x = n2:layernorm[embed](x + mlp(x))
  }
  return out:linear[embed, letters](x)
}
train {
  sound[batch, time = 320 * frames + 80, chan = 1] = synthetic(-1, 1)
  i32 letter[batch, frames] = synthetic(0, letters)
  loss = mean[batch, frames](xent[letters](wav2vec(sound), letter))
  optimizer = adamw(lr = 1e-4)
  steps = 100_000
}
