axis height, width
dim batch = 4
model m(x[batch, height, width]) -> [batch] {
  param w[height = x.height, width = x.width] = normal(0.1)
  return x @(height, width) w
}
train {
  x[batch, height = 8, width = 8] = nosuch("a")
  loss = sum[batch](m(x))
  optimizer = sgd(0.1)
  steps = 1
}
