# dtc --no-kernels --report
include "std.dsl"
dim batch = 12, wide = 4, pool = 4, each = 3
model net(x[batch, wide]) -> [batch, wide], [pool, wide] { # outputs are whole but for their samples
  param w[wide] = ones
  g = x[batch -> (pool, each)]
  return x * w, mean[each](g) * w
}
train {
  x[batch, wide] = synthetic(0, 1)
  y, s = net(x)
  loss = sum[batch, wide](y * y) + sum[pool, wide](s)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh m = 2; shard batch, pool on m; micro batch = 2 }
