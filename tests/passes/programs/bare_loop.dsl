# SPDX-License-Identifier: Apache-2.0
# A loop before which nothing is computed but what pieces make for themselves: numbers of positions.
include "std.dsl"
dim batch = 2, embed = 4, wide = embed, layers = 3
model m(x[batch, embed]) -> [batch, embed] {
  slope = 0.1 * f32(iota[embed])
  repeat h in layers {
    param w[embed, wide] = normal(0.3)
    x = x + tanh((x * slope) @embed w)[wide -> embed]
  }
  return x
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed](y * y)
  optimizer = adamw(lr = 0.01, clip = 1)
  steps = 2
}
