include "std.dsl"
# A mask of positions that were renamed: those of keys along queries, those of queries along heads.
dim batch = 2, seq = 3, kseq = seq, heads = seq, head = 4
model m(i32 t[batch, seq]) -> [batch, seq] {
  param q[batch, seq, heads, head], k[batch, kseq, heads, head], v[batch, kseq, heads, head] = normal(1)
  early = iota[kseq][kseq -> seq] + iota[kseq] < seq
  o = attend[seq, kseq, head](q, k, v, scale = 0.5, mask = early and iota[kseq] <= iota[seq][seq -> heads])
  r = sum[heads, head](o * o * (iota[head] + 1))
  return r * sin(f32(t) + 1)
}
train {
  i32 t[batch, seq] = synthetic(0, 5)
  loss = mean[batch, seq](m(t))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
