# dtc --no-kernels --report
include "std.dsl"
dim batch = 12, wide = 4
model net(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  repeat t in batch {
    y[batch = t] = w * f32(t)
  }
  return y + x
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh m = 2; shard wide on m; micro batch = 2 }
