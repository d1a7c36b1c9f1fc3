# SPDX-License-Identifier: Apache-2.0
# Ops of every kind, for layouts that split what they work along: tests/passes/test_place.c
include "std.dsl"
dim batch = 8, seq = 8, kseq = seq, vocab = 8, embed = 8, wide = 16, layers = 2
dim pool = 4, each = 2, a = 4, b = 2, c = 4, best = 2, short = 4, two = 2
axis tok, kk
layer mixing(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[embed, wide] = normal(0.3)
  param v[wide, embed] = normal(0.3)
  state seen[embed] = zeros
  seen = mean[batch, seq](x)
  y = relu(x @embed w)
  y = y - max[wide](y) * 0.1 + min[seq](y) * 0.1
  return (y @wide v) * dropout(ones_like(x), 0.1) + cumsum[seq](x) * 0.1
}
fn ones_like(x[...]) -> [...] { return x * 0 + 1 }
layer shapes(x[batch, seq, embed]) -> [batch, seq, embed] {
  z = x[embed -> (a, b)]
  m = mean[a](z)
  z = (z + m)[(a, b) -> embed]
  p, q = unstack[two](x[embed -> (c, two)])
  z = z + stack[two](q, -p)[(c, two) -> embed]
  g = x[batch -> (pool, each)]
  g = (g - mean[each](g))[(pool, each) -> batch]
  s = x[seq = iota[short] * 2 + 1]
  t, ti = topk[embed, best](x)
  u = scatter[best](t, embed = ti)
  return z + g + mean[short](s) * 0.1 + u * 0.2
}
layer views(x[batch, seq, embed]) -> [batch, seq, embed] {
  win = window[seq, kk](x, 3, 1, 1)
  param f[kk = 3, embed] = normal(0.3)
  y = sum[kk](win * f)
  cat = concat[tok](x[seq -> tok], y[seq -> tok])
  r = mean[tok](cat)
  q = softmax[kseq](x @embed x[seq -> kseq])
  return y + r + q @kseq x[seq -> kseq] + lse[seq](x) * 0.1 + where(x > 0, x, x * x)
}
model zoo(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  param wpe[seq, embed] = normal(0.2)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    x = x + mixing(n1:rmsnorm[embed](x)) * 0.3
    x = x + shapes(n2:layernorm[embed](x)) * 0.3
    x = x + views(n3:rmsnorm[embed](x)) * 0.1
  }
  return norm:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  valid = labels > 1
  loss = sum[batch, seq](where(valid, xent[vocab](zoo(tokens), labels), 0)) / max(sum[batch, seq](f32(valid)), 1)
  optimizer = adamw(lr = 0.05, decay = 0.1, clip = 1.0)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
cluster eight { gpus = 8; gpu = "cpu" }
parallel batches on two { mesh m = 2; shard batch on m; micro batch = 2 }
parallel positions on four { mesh m = 4; shard seq on m }
parallel keys on two { mesh m = 2; shard kseq, tok, short on m }
parallel widths on four { mesh m = 2, n = 2; shard wide, best on n; shard embed on m; shard two, vocab on n }
parallel groups on four { mesh m = 2, n = 2; shard pool, batch on m; shard each, seq on n }
parallel places on eight {
  mesh m = 2, n = 2, o = 2
  shard mixing.embed on o
  shard views.batch on o, m
  shard wte.vocab on n
  shard seq on n, o
  shard batch on m
  micro batch = 2
}
parallel merged on eight { mesh m = 4, n = 2; shard a, embed on m; shard b, two, embed on n }
