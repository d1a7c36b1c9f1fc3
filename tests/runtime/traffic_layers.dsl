# SPDX-License-Identifier: Apache-2.0
# A transformer of layers alone, so that what travels is what the papers count: no lookup, a loss without parameters.
include "std.dsl"
dim batch = 8, seq = 8, kseq = seq, layers = 4, embed = 64, heads = 4, head = 16, ffn = 64
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x, bias = false)
  k = wk:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  return wo:linear[(heads, head), embed](attend[seq, kseq, head](q, k, v, scale = 0.5), bias = false)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return up:linear[embed, ffn](x, bias = false) |> gelu |> down:linear[ffn, embed](bias = false)
}
model net(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers {
    x = x + attention(n1:rmsnorm[embed](x))
    x = x + mlp(n2:rmsnorm[embed](x))
  }
  return x
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  y = net(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = sgd(lr = 0.01, clip = 0)
  steps = 3
}
