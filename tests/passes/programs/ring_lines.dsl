# Rings where keys and queries are split by different lines: over mesh axes that neither the batch nor queries leave to
# the keys, that the mask alone could use, or that have one rank.
include "std.dsl"
dim batch = 8, seq = 16, kseq = seq, embed = 8, heads = 2, head = 4
layer looks(x[batch, seq, embed], causal) -> [batch, seq, heads, head] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, k, scale = 1.0)
  if causal { o = attend[seq, kseq, head](q, k, k, scale = 1.0, mask = iota[kseq] <= iota[seq]) }
  return o
}
model m(x[batch, seq, embed]) -> [batch, seq, heads, head] { return a:looks(x, true) + b:looks(x, false) }
train {
  x[batch, seq, embed] = synthetic(0, 2)
  y[batch, seq, heads, head] = synthetic(0, 2)
  d = m(x) - y
  loss = mean[batch, seq, heads, head](d * d)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 4; gpu = "cpu" }
parallel batch_first on c { mesh a = 2, b = 2; shard kseq on b, a (ring = true); shard batch on a }
parallel keys_alone on c { mesh a = 2, b = 2; shard kseq on b, a (ring = true) }
parallel queries_major on c { mesh a = 2, b = 2; shard seq on a; shard kseq on b, a (ring = true) }
parallel queries_minor on c { mesh a = 2, b = 2; shard seq on b; shard kseq on b, a (ring = true) }
parallel all on c { mesh a = 2, b = 2; shard seq on a, b; shard kseq on b, a (ring = true) }
parallel one on c { mesh a = 4, b = 1; shard batch on a; shard seq on b; shard kseq on b (ring = true) }
cluster six { gpus = 6; gpu = "cpu" }
parallel values_by_head on six { mesh a = 3, b = 2; shard kseq on b, a (ring = true); shard head on a, b (pad = 8) }
