# SPDX-License-Identifier: Apache-2.0
# Gradients in f16 that overflow at first: of what weights are made into, which products sum over samples and round.
include "std.dsl"
dim batch = 8, embed = 16, hidden = 16, layers = 2
layer tied(x[batch, embed]) -> [batch, embed] {
  param half[embed, hidden] = normal(0.15)
  param b[hidden] = zeros
  w = 2 * half
  return relu(x @embed w + b) @hidden w
}
model m(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = x + t:tied(x) }
  return x
}
train {
  x[batch, embed] = synthetic(0, 1)
  y = f32(m(x))
  loss = mean[batch, embed](y * y) * 5
  optimizer = sgd(lr = 1e-4)
  precision = mixed(compute = f16, params = f32, grads = f32, loss_scale = dynamic)
  steps = 10
}
cluster one { gpus = 1; gpu = "cpu" }
cluster pair { gpus = 2; gpu = "cpu" }
parallel alone on one { mesh data = 1 }
parallel again on one { mesh data = 1; remat h }
parallel staged on pair { mesh pipe = 2; pipeline h on pipe }
parallel data on pair { mesh data = 2; shard batch on data }
parallel shared on pair { mesh data = 2; shard batch on data; zero 3 on data }
