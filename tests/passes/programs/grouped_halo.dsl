# SPDX-License-Identifier: Apache-2.0
# A convolution in groups over rows that ranks share: in its gradient a rename moves elements, into an order of its own.
include "std.dsl"
dim batch = 12, embed = 12
model m(x[batch, height = 8, width = 8, chan = 4]) -> [batch, embed] {
  y = tanh(c1:conv(tanh(c0:conv(x, 2)), 6, 1, 2))
  y = tanh(c2:conv(y, 6, 2, pad = 0, groups = 3, bias = false))
  param w[height = 3, width = 3, chan = 6, embed] = normal(0.2)
  return y @(height, width, chan) w
}
train {
  x[batch, height = 8, width = 8, chan = 4] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed]((y - 0.3) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel rows on c { mesh d = 2; shard height on d (pad = 8) }
