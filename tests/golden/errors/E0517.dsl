# ---- no_attend
include "mini/model.dsl"
parallel two on pair { mesh data = 2; shard batch on data (ring = true) }
# ---- queries
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, embed = 8, heads = 2, head = embed // heads
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, k, scale = head ** -0.5)
  return wo:linear[(heads, head), embed](o)
}
cluster four { gpus = 4; gpu = "cpu" }
parallel queries on four {
  mesh context = 4
  shard seq on context (ring = true)   # keys are `kseq`
  shard kseq on context
}
parallel keys on four {
  mesh context = 4
  shard seq on context
  shard kseq on context (ring = true)
}
