# A state that is zero but for rounding.
dim batch = 8, wide = 4, pool = 4, each = 2
model net(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  state mu[wide] = zeros
  g = sin(x)[batch -> (pool, each)]
  y = g - sum[pool, each](g) / 8
  mu = 0.9 * mu + sum[pool, each](y)
  return x * w
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
