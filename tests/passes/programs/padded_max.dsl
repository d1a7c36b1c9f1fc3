# A maximum along a padded axis: its gradient looks for the first place.
dim batch = 4, seq = 4, embed = 4
model net(x[batch, seq, embed]) -> [batch, seq] {
  param w[embed] = ones
  return x @embed w
}
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = sum[batch](max[seq](net(x)))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 3; gpu = "cpu" }
parallel p on c { mesh context = 3; shard seq on context (pad = 3) }
cluster c6 { gpus = 6; gpu = "cpu" }
parallel q on c6 { mesh context = 3, data = 2; shard seq on context (pad = 3); shard batch on data }
