# SPDX-License-Identifier: Apache-2.0
# Too large for the interpreter, on many ranks.
include "std.dsl"
dim batch = 1024, seq = 128, kseq = seq, vocab = 1000, layers = 6, embed = 64, heads = 4, head = embed // heads
model wide(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  x = dropout(wte[vocab = tokens], 0.2)
  repeat h in layers {
    q = wq:linear[embed, (heads, head)](x, bias = false)
    k = wk:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
    o = attend[seq, kseq, head](q, k, k, scale = 0.5, mask = iota[kseq] <= iota[seq])
    x = x + wo:linear[(heads, head), embed](o)
  }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  valid = labels > 1
  loss = sum[batch, seq](xent[vocab](wide(tokens), labels) * valid) / sum[batch, seq](valid)
  optimizer = adamw(lr = 0.01, clip = 1.0)
  steps = 2
}
cluster pod { nodes = 8; gpus = 8; gpu = "cpu" }
cluster box { nodes = 1; gpus = 4; gpu = "cpu" }
parallel all on pod { mesh outer = 4, inner = 16; shard batch on outer, inner; micro batch = 8 }
parallel some on box { mesh outer = 2, inner = 2; shard batch on outer, inner; micro batch = 2 }
