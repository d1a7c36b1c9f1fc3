# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 8, embed = 8
dim a0 = 1, a1 = 1, a2 = 1, a3 = 1, a4 = 1, a5 = 1, a6 = 1, a7 = 1, a8 = 1, a9 = 1, a10 = 1, a11 = 1, a12 = 1
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param wide[a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12] = ones
  y = x * wide
  return sum[a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12](y[seq = 7 - iota[seq]])
}
train {
  x[batch, seq, embed] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel zigzag on two { mesh context = 2; shard seq on context (order = zigzag) }
