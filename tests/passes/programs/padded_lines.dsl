# An axis that one line pads and others split.
dim batch = 4, wide = 8
model net(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  return x * w
}
train {
  x[batch, wide] = synthetic(0, 1)
  loss = sum[batch, wide](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 6; gpu = "cpu" }
parallel p on c { mesh a = 2, b = 3; shard wide on a; shard wide on b (pad = 6) }
parallel q on c { mesh a = 2, b = 3; shard wide on a (pad = 6); shard wide on b }
parallel r on c { mesh a = 2, b = 3; shard wide on a; shard wide on b (pad = 6); shard batch, wide on a }
parallel s on c { mesh a = 2, b = 3; shard wide on a, b (pad = 6); shard wide on a }
