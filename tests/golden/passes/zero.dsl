# SPDX-License-Identifier: Apache-2.0
include "std.dsl"
dim batch = 4, d = 8, layers = 2
model m(x[batch, d]) -> [batch, d] {
  param gain[d] = ones
  x = x * gain
  repeat h in layers {
    param w[d] = normal(1)
    x = x * w
  }
  return x
}
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch, d](m(x))
  optimizer = adamw(lr = 0.1, betas = (0.9, 0.99), clip = 1)
  steps = 1
}
cluster four { gpus = 4; gpu = "cpu" }
cluster pair { gpus = 2; gpu = "cpu" }
parallel zero1 on pair { mesh data = 2; shard batch on data; zero 1 on data }
parallel zero2 on pair { mesh data = 2; shard batch on data; zero 2 on data }
parallel zero3 on pair { mesh data = 2; shard batch on data; zero 3 on data }
parallel zero_ahead on pair { mesh data = 2; shard batch on data; micro batch = 2; zero 3 on data (prefetch = 1) }
parallel zero_pieces on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 2; pipeline h on pipe; zero 3 on data (prefetch = 1) }
