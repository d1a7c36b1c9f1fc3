include "std.dsl"
dim batch = 8, wide = 8, last = 4
model m(x[batch, wide]) -> [batch, last] { return x |> f:linear[wide, last] }
train {
  x[batch, wide] = synthetic(0, 1)
  loss = mean[batch, last](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel twice on pair {
  mesh half = 2
  shard batch on half
  shard batch on half # taken
  shard wide on half  # parameters have it
  micro batch = 2
}
