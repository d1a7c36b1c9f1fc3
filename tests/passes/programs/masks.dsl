# SPDX-License-Identifier: Apache-2.0
# A bias of positions made by many ops: as a tree of ops it would have a quarter of a million.
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, vocab = 8, embed = 8, heads = 2, head = 4
model masks(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  x = wte[vocab = tokens]
  far = f32(iota[seq] - iota[kseq])
  repeat i in (1, 2, 3, 4, 5, 6, 7, 8) { far = far * 0.5 + sin(far) + cos(far) * far }
  q = wq:linear[embed, (heads, head)](x, bias = false)
  k = wk:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, k, scale = 0.5, bias = far, mask = iota[kseq] <= iota[seq])
  return (x + wo:linear[(heads, head), embed](o)) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](masks(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel ring on two { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
parallel zigzag on two {
  mesh context = 2
  shard seq on context (order = zigzag)
  shard kseq on context (ring = true, order = zigzag)
}
