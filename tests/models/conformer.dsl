# SPDX-License-Identifier: Apache-2.0
# Conformer S (Gulati et al., 2020) with CTC (Graves et al., 2006): blocks of half a feed-forward layer, attention with relative places
# (Dai et al., 2019), a gated depthwise convolution, and the other half. 8,747,968 parameters with 256 letters.
include "std.dsl"
dim batch = 64, frames = 400, kframes = frames, mels = 80, narrow = mels // 4, letters = 256, target = 60, states = 2 * target + 1
dim layers = 16, embed = 144, heads = 4, head = embed // heads, ffn = 4 * embed, kernel = 31
dim far = 2 * frames - 1, quarter = embed // 2, two = 2, wide = embed

layer mlp(x[batch, frames, embed]) -> [batch, frames, embed] {
  return x |> norm:layernorm[embed] |> up:linear[embed, ffn](std = 0.3) |> silu |> down:linear[ffn, embed](std = 0.3)
}
layer attention(x[batch, frames, embed]) -> [batch, frames, embed] {
  param u[heads, head], v[heads, head] = normal(0.3)
  x = norm:layernorm[embed](x)
  q = wq:linear[embed, (heads, head)](x, std = 0.3)
  k = wk:linear[embed, (heads, head)](x, std = 0.3)[frames -> kframes]
  values = wv:linear[embed, (heads, head)](x, std = 0.3)[frames -> kframes]
  angle = (iota[far] - (size[frames] - 1)) * 10_000.0 ** (-2 * iota[quarter] / embed)
  places = stack[two](sin(angle), cos(angle))[(quarter, two) -> embed]
  p = wp:linear[embed, (heads, head)](places, bias = false, std = 0.3)
  moved = ((q + v) @head p)[far = iota[frames] - iota[kframes] + (size[frames] - 1)]
  o = attend[frames, kframes, head](q + u, k, values, scale = head ** -0.5, bias = moved * head ** -0.5)
  return wo:linear[(heads, head), embed](o, std = 0.3)
}
layer convolve(x[batch, frames, embed]) -> [batch, frames, embed] {
  a, b = unstack[two](x |> n1:layernorm[embed] |> up:linear[embed, (two, wide)](std = 0.3))
  x = conv1d[frames, wide](a * sigmoid(b), wide, k = kernel, groups = wide)
  return n2:batchnorm[(batch, frames), wide](x) |> silu |> down:linear[wide, embed](std = 0.3)
}
model conformer(sound[batch, height = 4 * frames, width = mels, chan = 1]) -> [batch, frames, letters] {
  x = relu(c1:conv(sound, wide, stride = 2))
  x = relu(c2:conv(x, wide, stride = 2))[height -> frames, width -> narrow, chan -> wide]
  x = into:linear[(narrow, wide), embed](x, std = 0.1)
  repeat h in layers {
    x = x + 0.5 * m1:mlp(x)
    x = x + attention(x)
    x = x + convolve(x)
    x = norm:layernorm[embed](x + 0.5 * m2:mlp(x))
  }
  return out:linear[embed, letters](x, std = 0.3)
}
# -log of the probability of all ways to say `label`, with blanks (letter 0) between.
fn ctc(z[batch, frames, letters], i32 label[batch, target]) -> [batch] {
  i32 said[batch, states] = where(iota[states] % 2 == 1, label[target = iota[states] // 2], 0)
  skip = iota[states] > 1 and iota[states] % 2 == 1 and said != said[states = iota[states] - 2]
  e = (z - lse[letters](z))[letters = said]
  zero[batch, states] = 0.0
  a = where(iota[states] == 0, zero, -1e30)
  repeat t in frames {
    b = where(iota[states] < 1, -1e30, a[states = iota[states] - 1])
    c = where(skip, a[states = iota[states] - 2], -1e30)
    m = stop(max(a, max(b, c)))
    a = m + log(exp(a - m) + exp(b - m) + exp(c - m)) + e[frames = t]
  }
  last = where(iota[states] >= size[states] - 2, a, -1e30)
  return -lse[states](last)
}
train {
  sound[batch, height = 4 * frames, width = mels, chan = 1] = synthetic(-1, 1)
  i32 label[batch, target] = synthetic(1, letters)
  loss = mean[batch](ctc(conformer(sound), label))
  optimizer = adamw(lr = 1e-3, decay = 1e-6)
  steps = 100_000
}
