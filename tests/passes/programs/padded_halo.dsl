# Convolutions along a padded axis: a part with its halo is as long as the padded extent.
include "std.dsl"
dim batch = 8
model m(x[batch, height = 4, width = 8, chan = 8]) -> [batch] {
  y = x |> b:conv(3) |> c:conv(4, 3, 2)
  param w[height = y.height, width = y.width, chan = y.chan] = normal(0.02)
  return y @(height, width, chan) w
}
train {
  x[batch, height = 4, width = 8, chan = 8] = synthetic(0, 2)
  loss = mean[batch](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel q on c { mesh a = 2; shard width on a (pad = 6) }
