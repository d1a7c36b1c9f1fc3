# A loop inside a loop that reads the number of the outer one: it lies in memory.
include "std.dsl"
dim batch = 4, wide = 4, layers = 3, inner = 2
model net(x[batch, wide]) -> [batch, wide] {
  param big[layers, wide] = ones
  
  repeat h in layers {
    repeat j in inner { x = x * f32(h + 1) }
  }
  return x
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh data = 2; shard batch on data }
parallel q on c { mesh data = 2; shard batch on data; micro batch = 2 }
parallel r on c { mesh data = 2; shard wide on data }
