# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, embed = 8, wide = 8
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, wide](x, bias = false)[wide -> embed]
  return attend[seq, kseq, embed](q, x[seq -> kseq], x[seq -> kseq], scale = 1.0)
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return attention(x) }
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = mean[batch, seq, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel rings on four {
  mesh outer = 2, inner = 2
  shard batch on outer, inner
  shard kseq on outer, inner (ring = true)
}
