# ---- axes
dim batch = 4, embed = 16
model m(x[batch, embed]) -> [batch] {
  param w[embed] = ones
  return x @embed w
}
train {
  x[batch, embed] = synthetic(0, 1)
  loss = m(x)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- integer
dim batch = 4, embed = 16
model m(x[batch, embed]) -> [batch] {
  param w[embed] = ones
  return x @embed w
}
train {
  x[batch, embed] = synthetic(0, 1)
  loss = sum[batch](m(x) > 0)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- metric
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
  metrics = (loss, m.size_of, size_off, size_of, size_of)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
# ---- metric_value
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
  metrics = size_of
  optimizer = sgd(lr = 0.1)
  steps = 1
}
# ---- missing
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
# ---- shown
include "std.dsl"
dim batch = 4, one = 1
model m(x[batch]) -> [batch], [] {
  param w[one] = 1
  param v[one] = 1
  return x * w[one = 0], v[one = 0]
}
train {
  x[batch] = synthetic(0, 1)
  y, v = m(x)
  near = mean[batch](y)
  far = mean[batch](y * v)
  metrics = far
  first = sgd(lr = 0.1, params = "w", loss = near)
  second = sgd(lr = 0.1, params = "v", loss = far)
  steps = 10
}
# ---- far
include "std.dsl"
dim batch = 4, one = 1
model m(x[batch]) -> [batch], [] {
  param w[one] = 1
  param v[one] = 1
  return x * w[one = 0], v[one = 0]
}
train {
  x[batch] = synthetic(0, 1)
  y, v = m(x)
  near = mean[batch](y)
  far = y * v
  first = sgd(lr = 0.1, params = "w", loss = near)
  second = sgd(lr = 0.1, params = "v", loss = far)
  steps = 10
}
