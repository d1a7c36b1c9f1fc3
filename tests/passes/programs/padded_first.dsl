# The least of integers along a padded axis.
dim batch = 4, seq = 4
model net(x[batch, seq]) -> [batch, seq] {
  param w[seq] = ones
  return x * w
}
train {
  x[batch, seq] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, seq](y * stop(min[seq](where(x > 0.5, iota[seq], 7))))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 3; gpu = "cpu" }
parallel p on c { mesh context = 3; shard seq on context (pad = 3) }
