include "std.dsl"
dim batch = 8, wide = 4
model m(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  return x * w
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, wide](y * y)
  size_of = mean[wide](abs(y))
  metrics = (size_off, loss_)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
