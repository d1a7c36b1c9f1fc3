# SPDX-License-Identifier: Apache-2.0
# Layers that compute the same thing twice in each iteration: it is saved once.
include "std.dsl"
dim batch = 4, embed = 8, ffn = 8, layers = 3
layer mlp(x[batch, embed]) -> [batch, embed] {
  y = up:linear[embed, ffn](x)
  n = mean[ffn](y)
  k = mean[ffn](y)
  return softmax[ffn](y) * exp(n) * softmax[ffn](y) * sin(k) |> down:linear[ffn, embed]
}
model m(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = x + mlp(x) }
  return x
}
train {
  x[batch, embed] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel data on pair { mesh data = 2; shard batch on data }
