# dtc --no-kernels --report
dim batch = 4, wide = 4, pool = 2, each = 2
model net(x[batch, wide]) -> [batch, wide], f32[] {
  param w[wide] = ones
  y = x * w
  p = y[batch -> (pool, each)]
  aux = sum[pool, each, wide](p)
  return y, aux
}
train {
  x[batch, wide] = synthetic(0, 1)
  y, aux = net(x)
  loss = sum[batch, wide](y * y) + aux
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh n = 2; shard pool on n }
