# dtc --no-kernels --report
include "std.dsl"
dim batch = 32, d = 8, e = 4
model m(x[batch, d]) -> [batch, e] { return linear[d, e](x) }
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch, e](m(x))
  optimizer = adamw(lr = 0.1)
  steps = 1
}
cluster many { gpus = 32; gpu = "cpu" }
parallel deep on many {
  mesh a = 2, b = 2, c = 2, f = 2, g = 2
  shard batch on a, b, c, f
  shard d on g
  zero 1 on a, b, c, f
  zero 2 on g
}
