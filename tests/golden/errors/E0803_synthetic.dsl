dim batch = 4, bins = 8
model counts(i32 x[batch], scale[batch]) -> [batch] {
  param w[bins] = normal(0.02)
  return w[bins = x % bins] * scale
}
train {
  i32 x[batch] = synthetic(0, 5e9)
  scale[batch] = synthetic(-1e39, 1)
  loss = sum[batch](counts(x, scale))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
