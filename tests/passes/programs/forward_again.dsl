# A forward value that backward loops of later pieces read, made of an input and a parameter.
include "std.dsl"
dim batch = 4, wide = 4, layers = 4
model net(x[batch, wide], given[batch, wide]) -> [batch, wide] {
  param pos[wide] = ones
  x0 = given + pos
  repeat h in layers { x = x * x0 }
  return x
}
train {
  x[batch, wide] = synthetic(0, 1)
  given[batch, wide] = synthetic(0, 1)
  y = net(x, given)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
cluster c4 { gpus = 4; gpu = "cpu" }
parallel q on c4 { mesh pipe = 2, data = 2; pipeline h on pipe; micro batch = 2; shard batch on data }
