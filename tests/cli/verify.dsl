# SPDX-License-Identifier: Apache-2.0
# The program of verify.sh and of fuzz_verify: buckets, a ring, a pipeline.
include "std.dsl"
dim batch = 8, seq = 8, kseq = seq, vocab = 16, embed = 8, layers = 2, heads = 2, head = 4
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, k, scale = 0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o)
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + attention(x) }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = warmup_cosine(0.1, warmup = 2, total = 10, floor = 0.01), clip = 1.0)
  eval = every(2, steps = 3, data = next_token(synthetic(0, vocab)))
  save = every(2, keep = 3)
  seed = 7
  steps = 4
}
cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel zeros on two { mesh data = 2; shard batch on data; zero 3 on data }
parallel rings on two { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
parallel staged on four {
  mesh pipe = 2, data = 2
  shard batch on data
  pipeline h on pipe
  micro batch = 2
}
