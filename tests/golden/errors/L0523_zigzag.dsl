# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, embed = 8, wide = 8
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, wide](x, bias = false)[wide -> embed]
  k = wk:linear[embed, wide](x, bias = false)[wide -> embed, seq -> kseq]
  return attend[seq, kseq, embed](q, k, k, scale = 1.0, mask = iota[kseq] <= iota[seq])
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return attention(x) }
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = mean[batch, seq, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel balanced on two {
  mesh context = 2
  shard seq, kseq on context (order = zigzag)
}
