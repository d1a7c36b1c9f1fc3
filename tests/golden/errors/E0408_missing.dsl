dim batch = 4, embed = 16
model m(x[batch, embed]) -> [batch] {
  param w[embed] = ones
  return x @embed w
}
train {
  x[batch, embed] = synthetic(0, 1)
  cost = sum[batch](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
