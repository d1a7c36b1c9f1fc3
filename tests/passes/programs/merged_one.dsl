# SPDX-License-Identifier: Apache-2.0
# Axes are merged of which the last has one element: what is merged lies as it did, whatever that axis's stride is.
include "std.dsl"
dim batch = 4, embed = 4, layers = 2
axis major, minor
model m(x[batch, embed]) -> [batch, embed] {
  param w[embed] = normal(0.5)
  x = x * w
  repeat h in layers {
    y = x[embed -> (major, minor = 4)]
    z = y - max[minor](y)
    x = 0.6 * x + 0.6 * tanh(z[(minor, major) -> embed])
  }
  return x
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 3
}
cluster c { gpus = 1; gpu = "cpu" }
parallel alone on c { mesh data = 1 }
