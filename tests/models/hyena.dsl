# SPDX-License-Identifier: Apache-2.0
# Hyena (Poli et al., "Hyena Hierarchy: Towards Larger Convolutional Language Models", 2023) of order 2: filters as long as
# the text, which a small network with sines makes of positions, under a decay; gates before each. 153,413,856 parameters.
include "std.dsl"
dim batch = 64, seq = 1024, kseq = seq, far = seq, vocab = 50_257, layers = 18, embed = 864, out1 = embed, ffn = 2 * embed
dim three = 3, two = 2, wide = three * embed, bands = 16, place = 2 * bands + 1, order = 64, next = order
axis part

layer filters() -> [two, far, embed] {
  param skip[two, embed] = normal(0.3)
  param freq[order] = ones
  t = iota[far] / (size[far] - 1)
  rate = 1e-4 + iota[bands] * (bands - 1 - 1e-4) / (bands - 1)
  angle = rate * 6.283185307179586 * iota[far] / size[far]
  z = concat[part](stack[part](t), cos(angle)[bands -> part], -sin(angle)[bands -> part])[part -> place]
  h = sin(freq * w1:linear[place, order](z, std = 0.3))
  h = sin(freq[order -> next] * w2:linear[order, next](h, std = 0.3))
  h = w3:linear[next, (two, embed)](h, bias = false, std = 0.3)
  return h * exp(-t * (3 + 12 * iota[embed] / (embed - 1))) + where(iota[far] == 0, skip, 0)
}
layer operator(x[batch, seq, embed]) -> [batch, seq, embed] {
  z = win:linear[embed, (three, out1)](x, std = 0.3)[(three, out1) -> wide]
  z = conv1d[seq, wide](z, size[wide], k = 3, groups = size[wide], causal = true)
  a, b, v = unstack[three](z[wide -> (three, embed)])
  h, g = unstack[two](filters())
  v = h[far = iota[seq] - iota[kseq]] @kseq (v * b)[seq -> kseq]      # what comes later is out of range, so 0
  v = g[far = iota[seq] - iota[kseq]] @kseq (v * a)[seq -> kseq]
  return wo:linear[embed, out1](v, std = 0.3)[out1 -> embed]
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn](std = 0.3) |> gelu_tanh |> down:linear[ffn, embed](std = 0.3)
}
model hyena(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + operator(n1:layernorm[embed](x))
    x = x + mlp(n2:layernorm[embed](x))
  }
  return last:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](hyena(tokens), labels))
  optimizer = adamw(lr = 6e-4, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  steps = 100_000
}
