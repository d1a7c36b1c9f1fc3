# A loop with a state that is computed again, and saves nothing.
include "std.dsl"
dim batch = 4, wide = 4, layers = 2
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
  y = net(x)
  loss = sum[batch, wide](y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh data = 2; shard batch on data; remat h (keep = x) }
parallel q on c { mesh data = 2; shard batch on data; remat h }
parallel r on c { mesh pipe = 2; pipeline h on pipe; remat h }
parallel s on c { mesh pipe = 2; pipeline h on pipe }
