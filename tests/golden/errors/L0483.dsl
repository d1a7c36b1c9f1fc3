# ---- many
include "std.dsl"
dim batch = 4, wide = 16, last = 8
model m(x[batch, wide]) -> [batch, last] {
  return x |> f:linear[wide, last](bias = false)
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, last](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
  predict_rows = 8
}
# ---- mixed
include "std.dsl"
dim batch = 4, wide = 16, last = 8
model m(x[batch, wide]) -> [batch, last] {
  return (x - mean[batch](x)) |> f:linear[wide, last](bias = false)
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, last](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
  predict_rows = 2
}
