# SPDX-License-Identifier: Apache-2.0
# Whisper tiny (Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022): two convolutions over a mel
# spectrogram, an encoder with sinusoids for positions, a decoder that attends to it. 37,184,640 parameters.
include "std.dsl"
dim batch = 32, mel = 80, src = 1500, ksrc = src, tgt = 448, ktgt = tgt, vocab = 51_865
dim enc = 4, dec = 4, embed = 384, heads = 6, head = embed // heads, ffn = 4 * embed, half = embed // 2, out1 = embed
axis time, win

layer stem(x[batch, time, mel], stride) -> [batch, time, embed] {
  param w[win = 3, mel, embed] = normal(0.05)
  param b[embed] = zeros
  return gelu(window[time, win](x, 3, stride, 1) @(win, mel) w + b)
}
layer halved(x[batch, time, embed]) -> [batch, time, embed] {
  param w[win = 3, embed, out1] = normal(0.03)
  param b[out1] = zeros
  return gelu(window[time, win](x, 3, 2, 1) @(win, embed) w + b)[out1 -> embed]
}
layer self_src(x[batch, src, embed]) -> [batch, src, embed] {
  q, k = wq:linear[embed, (heads, head)](x), wk:linear[embed, (heads, head)](x, bias = false)
  o = attend[src, ksrc, head](q, k[src -> ksrc], wv:linear[embed, (heads, head)](x)[src -> ksrc], scale = head ** -0.5)
  return wo:linear[(heads, head), embed](o)
}
layer self_tgt(x[batch, tgt, embed]) -> [batch, tgt, embed] {
  q, k = wq:linear[embed, (heads, head)](x), wk:linear[embed, (heads, head)](x, bias = false)
  o = attend[tgt, ktgt, head](q, k[tgt -> ktgt], wv:linear[embed, (heads, head)](x)[tgt -> ktgt], scale = head ** -0.5,
                              mask = iota[ktgt] <= iota[tgt])
  return wo:linear[(heads, head), embed](o)
}
layer cross(x[batch, tgt, embed], y[batch, src, embed]) -> [batch, tgt, embed] {
  q, k = wq:linear[embed, (heads, head)](x), wk:linear[embed, (heads, head)](y, bias = false)
  o = attend[tgt, ksrc, head](q, k[src -> ksrc], wv:linear[embed, (heads, head)](y)[src -> ksrc], scale = head ** -0.5)
  return wo:linear[(heads, head), embed](o)
}
layer mlp(x[..., embed]) -> [..., embed] { return x |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed] }

model whisper(sound[batch, time = 2 * src, mel], i32 tokens[batch, tgt]) -> [batch, tgt, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[tgt, embed] = normal(0.02)
  y = sound |> c1:stem(1) |> c2:halved
  angle = iota[src] * 10_000.0 ** (-iota[half] / (half - 1))
  y = y[time -> src] + concat[win](sin(angle)[half -> win], cos(angle)[half -> win])[win -> embed]
  repeat e in enc {
    y = y + self_src(n1:layernorm[embed](y))
    y = y + mlp(n2:layernorm[embed](y))
  }
  y = post:layernorm[embed](y)
  x = wte[vocab = tokens] + wpe
  repeat d in dec {
    x = x + self_tgt(n1:layernorm[embed](x))
    x = x + cross(n2:layernorm[embed](x), y)
    x = x + mlp(n3:layernorm[embed](x))
  }
  return last:layernorm[embed](x) @embed wte
}
train {
  sound[batch, time = 2 * src, mel] = synthetic(-1, 1)
  i32 tokens[batch, tgt], i32 labels[batch, tgt] = next_token(synthetic(0, vocab))
  loss = mean[batch, tgt](xent[vocab](whisper(sound, tokens), labels))
  optimizer = adamw(lr = 1e-3, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  steps = 100_000
}
