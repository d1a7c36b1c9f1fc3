# A state that skips steps with the loss scale.
dim batch = 4, pool = 2, each = 2, tall = 4, chan = 2
layer bn(x[batch, tall, chan]) -> [batch, tall, chan] {
  param gain[chan] = ones
  state mu[chan] = zeros
  g = x[batch -> (pool, each)]
  m = sum[each, tall](g) * 0.1
  mu = sum[pool](m)
  return x * gain
}
train {
  x[batch, tall, chan] = synthetic(0, 1)
  loss = sum[batch, tall, chan](bn(x))
  optimizer = sgd(lr = 0.1)
  precision = mixed(loss_scale = dynamic)
  steps = 2
}
cluster c { gpus = 4; gpu = "cpu" }
parallel p on c { mesh data = 2, rows = 2; shard batch on data; shard tall on rows }
parallel q on c { mesh data = 4; shard batch on data }
cluster c2 { gpus = 2; gpu = "cpu" }
parallel r on c2 { mesh rows = 2; shard tall on rows }
parallel s on c2 { mesh data = 2; shard batch on data }
