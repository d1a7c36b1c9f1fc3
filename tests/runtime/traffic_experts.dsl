# SPDX-License-Identifier: Apache-2.0
# Layers of experts alone, each expert with `slot` places per sample.
include "std.dsl"
dim batch = 8, seq = 8, layers = 4, embed = 64, ffn = 64
dim experts = 4, route = experts, choice = 1, slot = 4
layer moe(x[batch, seq, embed]) -> [batch, seq, embed] {
  param router[embed, route] = normal(0.5)
  param up[experts, embed, ffn], down[experts, ffn, embed] = normal(0.05)
  g, e = topk[route, choice](softmax[route](x @embed router))
  pos = cumsum[seq, choice](onehot[route](e))[route = e] - 1
  y = relu(scatter[seq, choice](x, experts = e, slot = pos) @embed up) @ffn down
  return sum[choice](g * y[experts = e, slot = pos])
}
model mixture(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers { x = x + moe(x) }
  return x
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  y = mixture(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = sgd(lr = 0.01, clip = 0)
  steps = 3
}
