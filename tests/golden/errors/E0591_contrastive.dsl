include "std.dsl"
dim batch = 8, other = batch, d = 3, e = 4
model m(x[batch, d]) -> [batch, e] {
  param w[d, e] = normal(0.1)
  return x @d w
}
train {
  x[batch, d] = synthetic(0, 1)
  i32 y[batch] = synthetic(0, 8)
  a = m(x)
  z = a @e a[batch -> other]
  loss = mean[batch](xent[other](z, iota[batch]))
  optimizer = sgd(0.1)
  steps = 1
}
cluster one { gpus = 1; gpu = "cpu" }
parallel p on one { mesh data = 1; micro batch = 2 }
