# ---- contrastive
include "std.dsl"
dim batch = 8, other = batch, d = 3, e = 4
model m(x[batch, d]) -> [batch, e] {
  param w[d, e] = normal(0.1)
  return x @d w
}
train {
  x[batch, d] = synthetic(0, 1)
  i32 y[batch] = synthetic(0, 8)
  a = m(x)
  z = a @e a[batch -> other]
  loss = mean[batch](xent[other](z, iota[batch]))
  optimizer = sgd(0.1)
  steps = 1
}
cluster one { gpus = 1; gpu = "cpu" }
parallel p on one { mesh data = 1; micro batch = 2 }
# ---- groups
# dtc --no-kernels --report
include "std.dsl"
dim batch = 12, wide = 4, pool = 3, each = 4
model net(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  g = x[batch -> (pool, each)]
  return (g - sum[each](g))[(pool, each) -> batch] * w
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh m = 2; shard wide on m; micro batch = 2 }
# ---- padding
# dtc --no-kernels --report
include "std.dsl"
dim batch = 12, wide = 4, pool = 6, each = 2
model net(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  g = x[batch -> (pool, each)]
  return (g - sum[each](g))[(pool, each) -> batch] * w
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh m = 2; shard pool on m (pad = 8); micro batch = 2 }
# ---- scan
# dtc --no-kernels --report
include "std.dsl"
dim batch = 8, down = 4, across = 4, embed = 8
axis tok
model m(image[batch, down, across]) -> [batch, embed] {
  param w[tok = down * across, embed] = normal(0.1)
  x = image[(down, across) -> tok]
  return cumsum[batch](x) @tok w
}
train {
  image[batch, down, across] = synthetic(0, 1)
  y = m(image)
  loss = sum[batch, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel rows on pair { mesh half = 2; shard batch on half; micro batch = 2 }
