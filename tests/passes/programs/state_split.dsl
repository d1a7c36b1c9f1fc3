# A state of a loop whose value is a sum over the ranks that split the state.
include "std.dsl"
dim batch = 8, wide = 4, layers = 4
model net(x[batch, wide]) -> [batch, wide] {
  param gain[wide] = ones
  x = x * gain
  repeat h in layers {
    state mu[wide] = zeros
    mu = mean[batch](x)
    x = x - stop(mu)
  }
  return x
}
train {
  x[batch, wide] = synthetic(0, 1)
  loss = sum[batch, wide](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel plain on c { mesh tensor = 2; shard batch, wide on tensor }
parallel padded on c { mesh tensor = 2; shard batch, wide on tensor (pad = 6) }
parallel times on c { mesh tensor = 2; shard batch, wide on tensor; micro batch = 2 }
