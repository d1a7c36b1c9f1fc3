# SPDX-License-Identifier: Apache-2.0
# Quantisation-aware training (Jacob et al., 2018): weights and activations pass through rounding to 8 bits on the way forward, and
# straight through on the way back; ranges of activations are moving averages in states. A perceptron for MNIST: 784-512-256-10.
include "std.dsl"
dim batch = 128, pixel = 784, h1 = 512, h2 = 256, classes = 10

fn rounded(x[...], scale) -> [...] { return x + stop(floor(x / scale + 0.5) * scale - x) }
layer weight[a, b](std) -> [a, b] {
  param w[a, b] = normal(std)
  return rounded(w, stop(max[a, b](abs(w))) / 127)
}
layer seen[a](x[batch, a]) -> [batch, a] {
  state top[] = ones
  now = max[batch, a](stop(abs(x)))
  top = 0.9 * top + 0.1 * now
  t = if training then now else top
  return rounded(x, t / 127)
}
model net(x[batch, pixel]) -> [batch, classes] {
  x = relu(s0:seen[pixel](x) @pixel q1:weight[pixel, h1](0.05))
  x = relu(s1:seen[h1](x) @h1 q2:weight[h1, h2](0.1))
  return s2:seen[h2](x) @h2 q3:weight[h2, classes](0.1)
}
train {
  x[batch, pixel] = synthetic(-1, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](net(x), label))
  optimizer = adamw(lr = 1e-3)
  steps = 10_000
}
