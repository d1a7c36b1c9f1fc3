# SPDX-License-Identifier: Apache-2.0
# `zero 1` with micro-batches, of parameters of a loop in a loop and of others: gradients of those outside are cut in the
# last micro-batch, where they are made.
include "std.dsl"
dim batch = 8, embed = 8, kembed = 8, outer = 2, inner = 3
layer inside(x[batch, embed]) -> [batch, embed] {
  repeat k in inner {
    param gain[embed] = ones
    x = tanh(x * gain)
  }
  return x
}
model m(x[batch, embed]) -> [batch, embed] {
  repeat h in outer {
    x = x + 0.5 * mid:linear[embed, kembed](inside(x))[kembed -> embed]
  }
  return x
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed]((m(x) - 0.3) ** 2)
  optimizer = adamw(lr = 0.01)
  steps = 3
}
cluster two { gpus = 2; gpu = "cpu" }
parallel nested on two {
  mesh data = 2
  shard batch on data
  micro batch = 2
  zero 1 on data
}
