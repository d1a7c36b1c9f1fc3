# Ranks with one sample and one head: no loop is around attention's blocks. An exchange begins before the forward part that
# is computed again and is waited for between it and the backward one.
include "std.dsl"
dim batch = 2, seq = 8, kseq = seq, embed = 8, heads = 2, head = 4, layers = 2
layer block(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x, bias = false)
  k = wk:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = 0.5, mask = iota[kseq] <= iota[seq])
  y = wo:linear[(heads, head), embed](o)
  return 0.6 * x + 0.6 * tanh(y)
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers { x = block(x) }
  return x
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = adamw(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
cluster d { gpus = 4; gpu = "cpu" }
parallel two on c { mesh tensor = 2; shard heads, embed on tensor; micro batch = 2; remat h (keep = y) }
parallel four on d { mesh data = 2, tensor = 2; shard batch on data; shard head, embed on tensor; remat h (keep = (k, y)) }
