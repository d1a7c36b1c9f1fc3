# SPDX-License-Identifier: Apache-2.0
# Two loops that gather ahead, one with more iterations and more to gather than the other: test_order.c
include "std.dsl"
dim batch = 8, d = 8, f = 16, first = 5, second = 4
model m(x[batch, d]) -> [batch, d] {
  repeat a in first {
    param w[d, f] = normal(0.3)
    param v[f, d] = normal(0.3)
    param s[d] = ones
    x = x + tanh(x @d w) @f v * s
  }
  repeat b in second {
    param u[d] = normal(1)
    x = x + tanh(x * u)
  }
  return x
}
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch, d](m(x))
  optimizer = adamw(lr = 0.1, clip = 1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
cluster pair { gpus = 2; gpu = "cpu" }
parallel one on pair { mesh data = 2; shard batch on data; zero 3 on data (prefetch = 1) }
parallel small on pair { mesh data = 2; shard batch on data; zero 3 on data (prefetch = 2, bucket = 256B) }
parallel micro on pair { mesh data = 2; shard batch on data; micro batch = 4; zero 3 on data (prefetch = 3) }
parallel both on four { mesh data = 2, t = 2; shard batch on data; shard f on t; micro batch = 2; zero 3 on data (prefetch = 1) }
parallel pipe on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline a, b on pipe; zero 3 on data (prefetch = 1) }
parallel chunks on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline a, b on pipe (schedule = "interleaved_1f1b", chunks = 2); zero 3 on data (prefetch = 1) }
parallel apart on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline a, b on pipe (schedule = "zb_h1"); zero 3 on data (prefetch = 2) }
