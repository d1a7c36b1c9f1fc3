# Functions whose exponentials overflow far from zero: values and gradients stay finite.
include "std.dsl"
dim batch = 2, seq = 8
model m(i32 t[batch, seq]) -> [batch, seq] {
  param x[batch, seq] = normal(1.5)
  y = 1000 * x
  return (silu(y) + softplus(y) - y * sigmoid(-y)) * 0.001 + sigmoid(y) * x + gelu(y) * 0.001 * sin(f32(t) + 1)
}
train {
  i32 t[batch, seq] = synthetic(0, 5)
  loss = mean[batch, seq](m(t))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
