# SPDX-License-Identifier: Apache-2.0
# A weight that a product reads rounded, and a sum rounded and widened again.
include "std.dsl"
dim batch = 4, d = 8, f = 16
model m(x[batch, d]) -> [batch, f] {
  param w[d, f] = normal(0.3)
  return x @d w + sum[d](exp(f32(w)))
}
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch, f](f32(m(x)))
  optimizer = sgd(lr = 0.1)
  precision = mixed(compute = bf16)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh a = 2; shard batch on a; zero 1 on a }
