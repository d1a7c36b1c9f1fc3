# A ring whose queries have more digits than its keys: every step rounds the same queries again.
include "std.dsl"
dim batch = 4, embed = 8, seq = 8, kseq = seq
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[embed] = ones
  k = (x * w)[seq -> kseq]
  return attend[seq, kseq, embed](f32(x * w), k, k, scale = 0.5, mask = iota[kseq] <= iota[seq])
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  loss = mean[batch, seq, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.1)
  precision = mixed(compute = bf16, params = f32, grads = f32, reduce = f32)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel ring on four { mesh context = 4; shard seq on context; shard kseq on context (ring = true) }
parallel zigzag on four {
  mesh context = 4
  shard seq on context (order = zigzag)
  shard kseq on context (ring = true, order = zigzag)
}
