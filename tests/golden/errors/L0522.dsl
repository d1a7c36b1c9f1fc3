# ---- split
# dtc --no-kernels --report
include "std.dsl"
dim batch = 8, wide = 16, last = 8
model m(x[batch, wide]) -> [batch, last] {
  return x |> f:linear[wide, last](bias = false)
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, last](y * y)
  optimizer = adamw(lr = 0.01)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel both on four { mesh data = 2, tensor = 2; shard wide on tensor; shard batch on data; zero 1 on tensor }
# ---- state
# dtc --no-kernels --report
include "std.dsl"
dim batch = 8, wide = 16, last = 8
model m(x[batch, wide]) -> [batch, last] {
  return x |> f:linear[wide, last](bias = false)
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, last](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel both on four { mesh data = 2, tensor = 2; shard wide on tensor; shard batch on data; zero 1 on data }
