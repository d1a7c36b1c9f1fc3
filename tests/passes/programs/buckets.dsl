# SPDX-License-Identifier: Apache-2.0
# Loops whose gradients are summed over ranks in buckets, of which the last of an iteration is full when it ends.
include "std.dsl"
dim batch = 8, d = 8, f = 16, first = 5, second = 3
model m(x[batch, d]) -> [batch, d] {
  repeat a in first {
    param w[d, f] = normal(0.3)
    param v[f, d] = normal(0.3)
    param s[d] = ones
    x = x + tanh(x * s @d w) @f v
  }
  repeat b in second {
    param u[d] = normal(1)
    param t[d] = normal(1)
    x = x + tanh(x * u) * t
  }
  return x
}
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch, d](m(x))
  optimizer = adamw(lr = 0.1, clip = 1)
  steps = 3
}
cluster four { gpus = 4; gpu = "cpu" }
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh data = 2; shard batch on data; zero 2 on data }
parallel three on pair { mesh data = 2; shard batch on data; zero 3 on data }
parallel small on pair { mesh data = 2; shard batch on data; zero 2 on data (bucket = 256B) }
parallel both on four { mesh data = 2, t = 2; shard batch on data; shard f on t; zero 3 on data (bucket = 256B) }
parallel levels on four { mesh outer = 2, inner = 2; shard batch on outer, inner; zero 2 on inner; zero 1 on outer }
parallel plain on pair { mesh data = 2; shard batch on data }
parallel late on pair { mesh data = 2; shard batch on data; micro batch = 4 }
parallel later on four { mesh data = 2, t = 2; shard batch on data; shard f on t; micro batch = 2 }
parallel one on pair { mesh data = 2; shard batch on data; zero 1 on data }
parallel ahead on pair { mesh data = 2; shard batch on data; zero 3 on data (prefetch = 1) }
parallel further on four { mesh data = 2, t = 2; shard batch on data; shard f on t; zero 3 on data (prefetch = 2) }
parallel late_cut on pair { mesh data = 2; shard batch on data; zero 1 on data; micro batch = 4 }
parallel late_small on pair { mesh data = 2; shard batch on data; zero 1 on data (bucket = 256B); micro batch = 4 }
parallel late_both on four { mesh data = 2, t = 2; shard batch on data; shard f on t; zero 1 on data; micro batch = 2 }
parallel late_two on four { mesh outer = 2, inner = 2; shard batch on outer, inner; zero 1 on outer, inner; micro batch = 2 }
parallel adds on pair { mesh data = 2; shard batch on data; zero 2 on data; micro batch = 4 }
parallel adds_three on pair { mesh data = 2; shard batch on data; zero 3 on data; micro batch = 2 }
parallel adds_small on pair { mesh data = 2; shard batch on data; zero 2 on data (bucket = 256B); micro batch = 2 }
parallel adds_both on four { mesh data = 2, t = 2; shard batch on data; shard f on t; zero 3 on data (bucket = 256B); micro batch = 4 }
parallel adds_levels on four { mesh outer = 2, inner = 2; shard batch on outer, inner; zero 2 on inner; zero 1 on outer; micro batch = 2 }
parallel adds_pipe on four { mesh pp = 2, data = 2; shard batch on data; pipeline a on pp; micro batch = 4; zero 2 on data }
parallel adds_zb on four { mesh pp = 2, data = 2; shard batch on data; pipeline a, b on pp (schedule = "zb_h1"); micro batch = 4; zero 3 on data }
parallel adds_chunks on four { mesh pp = 2, data = 2; shard batch on data; pipeline a on pp (schedule = "interleaved_1f1b", chunks = 2); micro batch = 4; zero 2 on data }
parallel adds_ahead on pair { mesh data = 2; shard batch on data; zero 3 on data (prefetch = 1); micro batch = 4 }
parallel adds_ahead_pipe on four { mesh pp = 2, data = 2; shard batch on data; pipeline a, b on pp (chunks = 2, schedule = "interleaved_1f1b"); micro batch = 4; zero 3 on data (prefetch = 1) }
parallel late_pipe on four { mesh pp = 2, data = 2; shard batch on data; pipeline a on pp; micro batch = 4 }
parallel late_zb on four { mesh pp = 2, data = 2; shard batch on data; pipeline a, b on pp (schedule = "zb_h1"); micro batch = 4; zero 1 on data }
parallel late_chunks on four { mesh pp = 2, data = 2; shard batch on data; pipeline a on pp (schedule = "interleaved_1f1b", chunks = 2); micro batch = 4; zero 1 on data }
parallel late_dual on four { mesh pp = 2, data = 2; shard batch on data; pipeline a on pp (schedule = "dualpipe_v"); micro batch = 4; zero 1 on data (bucket = 256B) }
