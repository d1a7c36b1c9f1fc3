# ---- batchnorm
include "std.dsl"
dim batch = 8, wide = 4
model m(x[batch, wide]) -> [batch, wide] { return x |> batchnorm[batch, wide]() }
train {
  x[batch, wide] = synthetic(0, 1)
  loss = mean[batch, wide](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster one { gpus = 1; gpu = "cpu" }
parallel cut on one { mesh data = 1; micro batch = 2 }
# ---- log
# dtc --no-kernels --report
include "std.dsl"
dim batch = 8, down = 4, across = 4, embed = 8
axis tok
model m(image[batch, down, across]) -> [batch, embed] {
  param w[tok = down * across, embed] = normal(0.1)
  x = image[(down, across) -> tok]
  return x @tok w
}
train {
  image[batch, down, across] = synthetic(0, 1)
  y = m(image)
  loss = log(sum[batch, embed](y * y))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel rows on pair { mesh half = 2; shard batch on half; micro batch = 2 }
# ---- loop_gives
# dtc --no-kernels --report
include "std.dsl"
dim batch = 12, wide = 4
model net(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  repeat t in batch {
    y[batch = t] = w * f32(t)
  }
  return y + x
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
# ---- variance
include "std.dsl"
dim batch = 4, time = 3
fn behind(reward[batch, time]) -> [batch, time] {
  a[batch] = 0.0
  repeat i in time {
    a = reward[time = i] + 0.9 * a
    y[time = i] = a
  }
  return y
}
model net(x[batch, time]) -> [batch, time] { param w[time] = normal(1); return x * w }
train {
  x[batch, time] = synthetic(-1, 1)
  reward[batch, time] = synthetic(-1, 1)
  gain = behind(reward)
  off = gain - mean[batch, time](gain)
  loss = mean[batch, time](net(x) * off * rsqrt(mean[batch, time](off * off) + 1e-6))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster one { gpus = 1; gpu = "cpu" }
parallel small on one { mesh data = 1; shard batch on data; micro batch = 2 }
# ---- prediction
include "std.dsl"
dim batch = 8, embed = 8
model m(x[batch, embed]) -> [batch, embed] {
  param w[embed] = ones
  return tanh(x - mean[batch](x)) * w
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel p on pair { mesh half = 2; shard batch on half; micro batch = 2 }
