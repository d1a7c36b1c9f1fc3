# A statistic of the whole batch, made before the first micro-batch, has padding when it is handed on.
include "std.dsl"
dim batch = 8, embed = 6
model m(x[batch, embed]) -> [batch, embed] {
  param w[embed] = ones
  state mu[embed] = zeros
  m = if training then mean[batch](x) else mu
  mu = 0.7 * mu + 0.3 * stop(m)
  return tanh(x - m) * w
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel cut on four {
  mesh context = 2, data = 2
  shard embed on context (pad = 8)
  shard batch on data
  micro batch = 2
}
parallel shared on four {
  mesh context = 4
  shard embed on context (pad = 4)
  micro batch = 4
}
