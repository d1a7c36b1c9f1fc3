# SPDX-License-Identifier: Apache-2.0
# A scale of scores for each query, learnt.
include "std.dsl"
dim batch = 2, s = 4, t = 4, d = 8
model m(x[batch, s, d]) -> [batch, s, d] {
  param c[] = ones
  param u[d] = ones
  k = (x * u)[s -> t]
  return attend[s, t, d](x, k, k, c * log(2.0 + iota[s]))
}
train {
  x[batch, s, d] = synthetic(0, 1)
  loss = sum[batch, s, d](m(x) ** 2)
  optimizer = adamw(lr = 0.1, clip = 1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh a = 2; shard s on a; shard t on a (ring = true) }
