dim batch = 4, d = 3
model m(x[batch, d]) -> [batch] {
  param w[d] = normal(0.1)
  return x @d w
}
train {
  x[batch, d] = synthetic(0, 1)
  y[batch, d] = synthetic(0, 1)
  loss = sum[batch](m(x) * m(y))
  optimizer = sgd(0.1)
  steps = 1
}
