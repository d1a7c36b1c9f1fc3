# dtc --no-kernels --report
include "std.dsl"
dim batch = 12, wide = 4, pool = 6, each = 2
model net(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  g = x[batch -> (pool, each)]
  return (g - sum[each](g))[(pool, each) -> batch] * w
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh m = 2; shard pool on m (pad = 8); micro batch = 2 }
