include "std.dsl"
dim batch = 2, seq = 3, kseq = seq, kv = 2, group = 2, head = 4
model m(i32 t[batch, seq]) -> [batch, seq] {
  param q[batch, seq, kv, group, head], k[batch, kseq, kv, head], v[batch, kseq, kv, head] = normal(1)
  o = attend[seq, kseq, head](q, k, v, scale = 0.5)
  r = sum[kv, group, head](o * o * (iota[head] + 1))
  return r * sin(f32(t) + 1)
}
train {
  i32 t[batch, seq] = synthetic(0, 5)
  loss = mean[batch, seq](m(t))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
