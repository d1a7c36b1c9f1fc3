# dtc --target=sm_90a --emit=cuda --no-kernels
include "std.dsl"
dim batch = 2, seq = 4, kseq = seq, embed = 512
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param k[kseq, embed] = normal(1)
  return attend[seq, kseq, embed](x, k, k, scale = 1.0) # rows of 512
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  loss = sum[batch, seq, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
