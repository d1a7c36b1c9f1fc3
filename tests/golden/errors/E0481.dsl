# ---- optimizer
include "std.dsl"
dim batch = 4, embed = 8
model net(x[batch, embed]) -> [batch, embed] { return x |> up:rmsnorm[embed] }
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 20
}
cluster two { gpus = 2; gpu = "cpu" }
parallel thin on two { mesh data = 2; shard batch on data; compress adamw on data }
# ---- spelling
include "std.dsl"
dim batch = 4, embed = 8
model net(x[batch, embed]) -> [batch, embed] { return x |> up:rmsnorm[embed] }
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 20
}
cluster two { gpus = 2; gpu = "cpu" }
parallel thin on two { mesh data = 2; shard batch on data; compress int9 on data }
