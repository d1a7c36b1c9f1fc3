# dtc --no-kernels --report
include "std.dsl"
dim batch = 64, wide = 16, last = 8
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
cluster c16 { gpus = 16; gpu = "cpu" }
parallel timed on c16 { mesh a = 2, b = 2, c = 2, d = 2; shard batch on a, b; shard batch on c, d; micro batch = 2 }
