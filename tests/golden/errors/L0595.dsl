# ---- loop
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, d = 8, e = d, layers = 3
model m(x[batch, d]) -> [batch, d] {
  repeat h in layers { x = x + linear[d, e](x)[e -> d] }
  return x
}
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch, d](m(x))
  optimizer = adamw(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh data = 2; shard batch on data; zero 3 on data (prefetch = 2) }
# ---- offload
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, d = 8, e = 4
model m(x[batch, d]) -> [batch, e] { return linear[d, e](x) }
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch, e](m(x))
  optimizer = adamw(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh data = 2; shard batch on data; zero 1 on data (offload = host) }
# ---- prefetch
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, d = 8, e = 4
model m(x[batch, d]) -> [batch, e] { return linear[d, e](x) }
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch, e](m(x))
  optimizer = adamw(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh data = 2; shard batch on data; zero 3 on data (prefetch = 2) }
# ---- offload_of_gpus
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, d = 8, e = 4
model m(x[batch, d]) -> [batch, e] { return linear[d, e](x) }
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch, e](m(x))
  optimizer = adamw(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "h100-sxm" }
parallel two on pair { mesh data = 2; shard batch on data; zero 1 on data (offload = host) }
# ---- loop_of_gpus
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, d = 8, e = d, layers = 3
model m(x[batch, d]) -> [batch, d] {
  repeat h in layers { x = x + linear[d, e](x)[e -> d] }
  return x
}
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch, d](m(x))
  optimizer = adamw(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "h100-sxm" }
parallel two on pair { mesh data = 2; shard batch on data; zero 3 on data (prefetch = 2, offload = host) }
