# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, embed = 8, heads = 2, head = 4
dim a0 = 1, a1 = 1, a2 = 1, a3 = 1, a4 = 1, a5 = 1, a6 = 1, a7 = 1, a8 = 1, a9 = 1, a10 = 1
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, heads, head)](x)
  k = wk:linear[embed, (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, k, scale = 0.5)
  return wo:linear[(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, heads, head), embed](o)
}
train {
  x[batch, seq, embed] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel ring on two { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
