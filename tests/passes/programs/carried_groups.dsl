# Groups of samples in a loop and a layer: what they carry, take and give keeps the cut of `micro`, also where a line
# names the groups.
include "std.dsl"
dim batch = 24, wide = 4, pool = 8, each = 3, layers = 3
layer next(s[pool, wide], w[wide]) -> [pool, wide] { return tanh(s * w) }
model net(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  g = x[batch -> (pool, each)]
  s = mean[each](g)
  repeat h in layers { s = tanh(s * w) + 0.1 * next(s, w) }
  return (g - next(s, w))[(pool, each) -> batch] * w
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel named on c { mesh m = 2; shard batch, pool on m; micro batch = 2 }
parallel other on c { mesh m = 2; shard pool, wide on m; micro batch = 4 }
parallel limited on c { mesh m = 2; shard next.pool on m; shard wide on m; micro batch = 2 }
parallel unnamed on c { mesh m = 2; shard batch on m; micro batch = 4 }
parallel staged on c { mesh m = 2; pipeline h on m; micro batch = 4 }
