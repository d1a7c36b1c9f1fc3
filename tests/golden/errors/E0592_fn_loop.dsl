include "std.dsl"
dim batch = 8, wide = 16, last = 8, times = 2
fn twice(x[..., wide]) -> [..., wide] {
  repeat h in times { x = x + dropout(x, 0.1) }
  return x
}
model m(x[batch, wide]) -> [batch, last] {
  return twice(x) |> f:linear[wide, last](bias = false)
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, last](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel limited on two { mesh tensor = 2; shard twice.wide on tensor; shard batch on tensor }
