dim batch = 4
model m(x[batch]) -> [batch] { return x }
train {
  x = synthetic(0, 1)
  loss = sum[batch](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
