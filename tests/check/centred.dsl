# SPDX-License-Identifier: Apache-2.0
# A state whose new value is zero but for rounding.
include "std.dsl"
dim batch = 8, pool = 2, each = 4, embed = 8, last = 4
layer centre(x[batch, embed]) -> [batch, embed] {
  state mu[embed] = zeros
  y = x[batch -> (pool, each)]
  y = (y * 1.5 - mean[each](y * 1.5))[(pool, each) -> batch]
  mu = mean[batch](y)
  return y
}
model m(x[batch, embed]) -> [batch, last] { return x |> centre |> f:linear[embed, last] }
train {
  x[batch, embed] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, last](y * y)
  optimizer = adamw(lr = 0.01)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel both on pair { mesh data = 2; shard batch on data; micro batch = 2 }
