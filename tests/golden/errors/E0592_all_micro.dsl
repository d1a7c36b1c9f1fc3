# dtc --no-kernels --report
dim batch = 8, wide = 4, pool = 4, each = 2
layer norm(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  g = x[batch -> (pool, each)]
  return (g - sum[each](g))[(pool, each) -> batch] * w
}
model net(x[batch, wide]) -> [batch, wide] {
  return norm(x)
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh m = 2; shard pool, wide on m; micro batch = 2 }
