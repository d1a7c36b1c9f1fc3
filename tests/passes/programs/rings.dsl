# SPDX-License-Identifier: Apache-2.0
# Attention of every kind, for keys that travel and for the zigzag order: tests/passes/test_place.c
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, vocab = 8, embed = 8, layers = 2
dim kv = 2, group = 2, head = 4, far = 4
layer causal(x[batch, seq, embed]) -> [batch, seq, embed] {     # grouped queries, rotated by position
  angle = f32(iota[seq]) * exp(-f32(iota[head]))
  q = wq:linear[embed, (kv, group, head)](x, bias = false)
  k = wk:linear[embed, (kv, head)](x, bias = false) * (1 + cos(angle) * 0.1)
  v = wv:linear[embed, (kv, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k[seq -> kseq], v, scale = 0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(kv, group, head), embed](o)
}
layer slopes(x[batch, seq, embed]) -> [batch, seq, embed] {     # a bias of positions and heads, a learned scale
  param scale[kv] = ones
  q = wq:linear[embed, (kv, head)](x, bias = false)
  k = wk:linear[embed, (kv, head)](x, bias = false)[seq -> kseq]
  slope = f32(iota[kseq] - iota[seq]) * (0.1 / (1 + f32(iota[kv])))
  o = attend[seq, kseq, head](q, k, k * 0.5, scale = scale, bias = slope, mask = iota[kseq] <= iota[seq])
  return wo:linear[(kv, head), embed](o)
}
layer padded(x[batch, seq, embed], seen[batch, seq]) -> [batch, seq, embed] {   # a mask of the data, a learned bias of keys
  param sink[kseq, kv] = normal(0.3)
  q = wq:linear[embed, (kv, head)](x, bias = false)
  k = wk:linear[embed, (kv, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, k, scale = 0.5, bias = sink, mask = seen[seq -> kseq] > 0.3)
  return wo:linear[(kv, head), embed](o)
}
layer fixed(x[batch, seq, embed]) -> [batch, seq, embed] {      # learns values only: its backward part goes round twice
  q = wq:linear[embed, (kv, head)](stop(x), bias = false)
  v = wv:linear[embed, (kv, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](stop(q), stop(q)[seq -> kseq], v, scale = 0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(kv, head), embed](o)
}
layer distances(x[batch, seq, embed]) -> [batch, seq, embed] {  # a learned bias of both
  param near[far, kv] = normal(0.3)
  q = wq:linear[embed, (kv, head)](x, bias = false)
  k = wk:linear[embed, (kv, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, k, scale = 0.5, bias = near[far = min(abs(iota[seq] - iota[kseq]), 3)])
  return wo:linear[(kv, head), embed](o)
}
model rings(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  param wpe[seq, embed] = normal(0.2)
  x = wte[vocab = tokens] + wpe
  seen = exp(-f32(tokens) * 0.2)
  repeat h in layers {
    x = x + causal(n1:rmsnorm[embed](x))
    x = x + slopes(n2:rmsnorm[embed](x))
    x = x + dropout(padded(n3:rmsnorm[embed](x), seen), 0.1)
    x = x + fixed(n5:rmsnorm[embed](x))
    x = x + distances(n4:rmsnorm[embed](x))
    x = x + x[seq = where(tokens > 6, -2147483647 - tokens // 7, tokens)] * 0.1   # the least i32, too
  }
  return norm:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  valid = labels > 1
  loss = sum[batch, seq](where(valid, xent[vocab](rings(tokens), labels), 0)) / max(sum[batch, seq](f32(valid)), 1)
  optimizer = adamw(lr = 0.05, decay = 0.1, clip = 1.0)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
cluster eight { gpus = 8; gpu = "cpu" }
parallel ring on two { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
parallel ring_of_four on four {
  mesh context = 4
  shard seq on context
  shard kseq on context (ring = true)
  micro batch = 2
}
parallel ring_beside on eight {
  mesh data = 2, context = 2, tensor = 2
  shard kv, vocab on tensor
  shard seq on context, tensor
  shard kseq on context (ring = true)
  shard batch on data
  zero 3 on data, context
  remat h (keep = (attend))
}
parallel ring_of_axes on eight {
  mesh outer = 2, inner = 2, tensor = 2
  shard kv, vocab on tensor
  shard seq on outer, inner, tensor
  shard kseq on outer, inner (ring = true)
  micro batch = 2
  zero 3 on outer
  remat h (keep = (attend))
}
parallel ring_turned on four {        # a ring in the order of the mesh, blocks in another
  mesh outer = 2, inner = 2
  shard seq on inner, outer
  shard kseq on inner, outer (ring = true)
}
parallel ring_and_gather on four {    # between nodes a ring, inside of them gathered
  mesh outer = 2, inner = 2
  shard seq on outer, inner
  shard kseq on outer (ring = true)
  shard kseq on inner
}
parallel ring_of_heads on four {      # heads within a node, a ring between them
  mesh outer = 2, inner = 2
  shard attend.kv on inner
  shard seq on outer, inner
  shard kseq on outer, inner (ring = true)
}
parallel zigzag on two { mesh context = 2; shard seq on context (order = zigzag) }
parallel zigzag_ring on four {
  mesh context = 4
  shard seq on context (order = zigzag)
  shard kseq on context (ring = true, order = zigzag)
  micro batch = 2
}
parallel zigzag_of_axes on eight {
  mesh data = 2, outer = 2, inner = 2
  shard seq on inner, outer (order = zigzag)
  shard kseq on outer, inner (ring = true, order = zigzag)
  shard batch on data
  zero 3 on data, outer
  remat h
}
parallel zigzag_beside on eight {
  mesh data = 2, context = 2, tensor = 2
  shard attend.kv on context
  shard kv, vocab on tensor
  shard seq on context (order = zigzag)
  shard batch on data
  zero 3 on data, context
  remat h (keep = (attend))
}
