# SPDX-License-Identifier: Apache-2.0
# Of a ring's attention only the values are trained: its backward functions are handed keys, queries and results that
# they do not read, and what each rank does is not.
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, embed = 4, heads = 2, head = 4
model m(x[batch, seq, embed]) -> [batch, seq, heads, head] {
  q, k, v = wq:linear[embed, (heads, head)](x), wk:linear[embed, (heads, head)](x), wv:linear[embed, (heads, head)](x)
  return attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = 0.5, mask = iota[kseq] <= iota[seq])
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  loss = mean[batch, seq, heads, head]((m(x) - 0.3) ** 2)
  optimizer = sgd(lr = 0.1)
  frozen = ("wq.*", "wk.*")
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel ring on c { mesh t = 2; shard seq on t; shard kseq on t (ring = true) }
parallel zigzag on c { mesh t = 2; shard seq on t (order = zigzag); shard kseq on t (ring = true, order = zigzag) }
