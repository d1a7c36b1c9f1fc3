# ---- all_micro
# dtc --no-kernels --report
include "std.dsl"
dim batch = 12, wide = 4, pool = 4, each = 3
model net(x[batch, wide]) -> [batch, wide], [pool, wide] { # outputs are whole but for their samples
  param w[wide] = ones
  g = x[batch -> (pool, each)]
  return x * w, mean[each](g) * w
}
train {
  x[batch, wide] = synthetic(0, 1)
  y, s = net(x)
  loss = sum[batch, wide](y * y) + sum[pool, wide](s)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh m = 2; shard batch, pool on m; micro batch = 2 }
# ---- deep
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, embed = 8, wide = embed, a = 2, b = 2, c = 2, d = 2, e = 2
model m(x[batch, embed]) -> [batch, embed] {
  repeat h in a { repeat i in b { repeat j in c { repeat k in d {
    repeat l in e { x = x + tanh(f:linear[embed, wide](x))[wide -> embed] }
  } } } }
  return x
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
# ---- input_elsewhere
# dtc --no-kernels --report
dim batch = 4, wide = 4, pool = 2, each = 2
model net(x[batch, wide]) -> [batch, wide], f32[] {
  param w[wide] = ones
  y = x * w
  p = y[batch -> (pool, each)]
  aux = sum[pool, each, wide](p)
  return y, aux
}
train {
  x[batch, wide] = synthetic(0, 1)
  y, aux = net(x)
  loss = sum[batch, wide](y * y) + aux
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh n = 2; shard pool on n }
# ---- pad_long
# dtc --no-kernels --report
include "std.dsl"
dim batch = 8, seq = 8, vocab = 13, embed = 8
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  return wte[vocab = tokens] @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel tensor on pair { mesh tp = 2; shard vocab on tp (pad = 4294967296) }
# ---- pad_micro
# dtc --no-kernels --report
include "std.dsl"
dim batch = 12, seq = 8, vocab = 16, embed = 8
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  return wte[vocab = tokens] @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel both on four {
  mesh data = 4
  shard batch on data (pad = 8)
  micro batch = 3
}
# ---- pipeline_twice
# dtc --no-kernels --report
dim batch = 4, d = 8, layers = 4
model scaled(x[batch, d]) -> [batch, d] {
  param w[d] = ones
  return x * w
}
model m(x[batch, d]) -> [batch, d] {
  repeat h in layers { x = x + tanh(x) }
  return x
}
train {
  x[batch, d] = synthetic(0, 1)
  y = m(m(scaled(x)))
  loss = sum[batch, d](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
# ---- ring_ordered
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, embed = 8
fn last[s, t](q[..., s], k[..., t]) -> [..., s] {
  return q * k[t = size[t] - 1]
  scan[t] { return k[t = size[t] - 1] * (1 + 0 * q) }
  merge(a, b) { return 0 * a + b }
  finish(b) { return q * b }
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[embed] = ones
  return last[seq, kseq](x, (x * w)[seq -> kseq])
}
train {
  x[batch, seq, embed] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel ring on two { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
# ---- ring_rank
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, embed = 8, heads = 2, head = 4
dim a0 = 1, a1 = 1, a2 = 1, a3 = 1, a4 = 1, a5 = 1, a6 = 1, a7 = 1, a8 = 1, a9 = 1, a10 = 1
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, heads, head)](x)
  k = wk:linear[embed, (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, k, scale = 0.5)
  return wo:linear[(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, heads, head), embed](o)
}
train {
  x[batch, seq, embed] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel ring on two { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
# ---- splits
# dtc --no-kernels --report
include "std.dsl"
dim batch = 64, wide = 16, last = 8
model m(x[batch, wide]) -> [batch, last] {
  return x |> f:linear[wide, last](bias = false)
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, last](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c16 { gpus = 16; gpu = "cpu" }
parallel timed on c16 { mesh a = 2, b = 2, c = 2, d = 2; shard batch on a, b; shard batch on c, d; micro batch = 2 }
# ---- zero
# dtc --no-kernels --report
include "std.dsl"
dim batch = 32, d = 8, e = 4
model m(x[batch, d]) -> [batch, e] { return linear[d, e](x) }
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch, e](m(x))
  optimizer = adamw(lr = 0.1)
  steps = 1
}
cluster many { gpus = 32; gpu = "cpu" }
parallel deep on many {
  mesh a = 2, b = 2, c = 2, f = 2, g = 2
  shard batch on a, b, c, f
  shard d on g
  zero 1 on a, b, c, f
  zero 2 on g
}
# ---- zigzag_rank
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 8, embed = 8
dim a0 = 1, a1 = 1, a2 = 1, a3 = 1, a4 = 1, a5 = 1, a6 = 1, a7 = 1, a8 = 1, a9 = 1, a10 = 1, a11 = 1, a12 = 1
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param wide[a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12] = ones
  y = x * wide
  return sum[a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12](y[seq = 7 - iota[seq]])
}
train {
  x[batch, seq, embed] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel zigzag on two { mesh context = 2; shard seq on context (order = zigzag) }
# ---- zigzag_samples
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, embed = 8, wide = 8
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, wide](x, bias = false)[wide -> embed]
  return attend[seq, kseq, embed](q, x[seq -> kseq], x[seq -> kseq], scale = 1.0)
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return attention(x) }
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = mean[batch, seq, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 2; gpu = "cpu" }
parallel crossed on four { mesh outer = 2; shard batch on outer (order = zigzag) }
# ---- zigzag_twice
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, embed = 8, wide = 8
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, wide](x, bias = false)[wide -> embed]
  return attend[seq, kseq, embed](q, x[seq -> kseq], x[seq -> kseq], scale = 1.0)
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return attention(x) }
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = mean[batch, seq, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel crossed on four {
  mesh outer = 2, inner = 2
  shard seq on outer (order = zigzag)
  shard seq on inner
}
# ---- losses
include "std.dsl"
dim batch = 4, n = 4, k = 4, layers = 4, one = 1
model m(x[batch, n]) -> [batch], [] {
  param v[one] = 1
  repeat h in layers { x = x + (x |> up:linear[n, k] |> down:linear[k, n]) }
  return sum[n](x), v[one = 0]
}
train {
  x[batch, n] = synthetic(0, 1)
  y, v = m(x)
  near = mean[batch](y)
  far = mean[batch](y * v)
  first = sgd(lr = 0.1, params = "h.*", loss = near)
  second = sgd(lr = 0.1, params = "v", loss = far)
  steps = 10
}
parallel two on laptop { mesh pipe = 2; pipeline h on pipe; micro batch = 4 }
cluster laptop { gpus = 2; gpu = "cpu" }
# ---- ramp
include "mini/model.dsl"
include "std.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](tiny(tokens), labels))
  optimizer = adamw(lr = 0.1)
  ramp = batch(from = 2, by = 2, over = 100)
  steps = 10
}
parallel p on pair { mesh pipe = 2; pipeline h on pipe; micro batch = 4 }
