# SPDX-License-Identifier: Apache-2.0
# A small transformer under the layouts of the field. tests/passes/test_place.c
include "std.dsl"
dim batch = 8, seq = 16, kseq = seq, vocab = 16
dim layers = 2, embed = 8, heads = 4, head = 4, ffn = 32

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x, bias = false)
  k = wk:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o, bias = false)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn] |> silu |> down:linear[ffn, embed] |> dropout(0.1)
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed], wpe[seq, embed] = normal(0.1)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    x = x + attention(n1:rmsnorm[embed](x))
    x = x + mlp(n2:rmsnorm[embed](x))
  }
  return norm:rmsnorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  valid = labels > 2
  l = xent[vocab](gpt(tokens), labels)
  loss = sum[batch, seq](where(valid, l, 0)) / sum[batch, seq](f32(valid))
  optimizer = adamw(lr = 0.1, decay = 0.1, clip = 1.0)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
cluster eight { nodes = 2; gpus = 4; gpu = "cpu"; intra = link(100GB/s, 2us); inter = link(10GB/s, 5us) }

parallel data on four { mesh data = 4; shard batch on data }
parallel tensor on two { mesh tensor = 2; shard heads, ffn, vocab on tensor }
parallel sequence on two { mesh tensor = 2; shard heads, ffn, vocab on tensor; shard seq on tensor }
parallel two_d on four { mesh rows = 2, columns = 2; shard embed on rows; shard heads, ffn, vocab on columns }
parallel gathered on two { mesh context = 2; shard seq on context }
parallel keys on two { mesh context = 2; shard seq, kseq on context }
parallel ring on two { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
parallel ring_axes on four {
  mesh outer = 2, inner = 2
  shard seq on outer, inner
  shard kseq on outer, inner (ring = true)
}
parallel zigzag_axes on four {
  mesh outer = 2, inner = 2
  shard seq on outer, inner (order = zigzag)
  shard kseq on outer (ring = true, order = zigzag)
  shard kseq on inner (order = zigzag)
}
parallel zigzag on two { mesh context = 2; shard seq on context (order = zigzag); shard kseq on context (ring = true, order = zigzag) }
parallel ulysses on two { mesh context = 2; shard attend.heads on context; shard seq on context }
parallel vocabulary on two { mesh part = 2; shard vocab on part }
parallel padded on two { mesh part = 2; shard vocab, ffn on part (pad = 6) }
parallel padded_twice on four { mesh part = 2, rest = 2; shard wte.vocab on rest (pad = 6); shard vocab on part (pad = 4) }
parallel everything on eight {
  mesh data = 2, context = 2, tensor = 2
  shard attend.heads on tensor, context
  shard heads, ffn, vocab on tensor
  shard seq on context, tensor
  shard batch on data
  micro batch = 2
}
