# SPDX-License-Identifier: Apache-2.0
# A mesh axis of one rank splits an axis of which a rank has one element: what lies with its axes in another order is its own
# part, by whatever the rank's coordinate, which is 0, is multiplied.
include "std.dsl"
dim batch = 8, embed = 4
model m(x[batch, height = 6, width = 6, chan = 2]) -> [batch, embed] {
  v2 = tanh(c1:conv(x, 2, 1, 1))
  y2 = tanh(c2:conv(v2, 4, 3, 1))
  param wi[height = 6, width = 6, chan = 4, embed] = normal(0.083)
  v11 = y2 @(height, width, chan) wi
  return v11 - 0.5 * softmax[embed](v11)
}
train {
  x[batch, height = 6, width = 6, chan = 2] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed](y * y)
  optimizer = adamw(lr = 0.01)
  steps = 2
}
cluster c { gpus = 4; gpu = "cpu" }
parallel one_rank on c { mesh context = 4, data = 1; shard c1.embed on data; shard embed on context; shard embed on data }
