# SPDX-License-Identifier: Apache-2.0
# The gradients of q, which are made apart, read p again: their loop gathers ahead and carries nothing else.
include "std.dsl"
dim batch = 8, seq = 4, embed = 8, ffn = 16, layers = 4
axis tap
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers { x = x + up:linear[embed, ffn](x) |> down:linear[ffn, embed] }
  repeat g in layers {
    param p[seq, embed] = ones
    param q[tap = 2] = normal(0.5)
    x = window[seq, tap](x + p, 2, pad = (1, 0)) @tap q
  }
  return x
}
train {
  x[batch, seq, embed] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = sgd(lr = 0.01)
  steps = 3
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel serial on pair { mesh pipe = 1, data = 2; shard batch on data; micro batch = 2 }
parallel plain on pair { mesh pipe = 1, data = 2; shard batch on data; micro batch = 2; pipeline h on pipe (schedule = "zb_v", chunks = 2); zero 3 on data }
parallel ahead on pair { mesh pipe = 1, data = 2; shard batch on data; micro batch = 2; pipeline h on pipe (schedule = "zb_v", chunks = 2); zero 3 on data (prefetch = 1) }
