include "std.dsl"
dim batch = 2, seq = 3, kseq = seq, heads = 2, head = 4
model m(i32 t[batch, seq]) -> [batch, seq] {
  param q[batch, seq, heads, head], k[batch, kseq, heads, head], v[batch, kseq, heads, head] = normal(1)
  param bias[heads, seq, kseq] = normal(1)
  o = attend[seq, kseq, head](q, k, v, scale = 0.5, bias = bias, mask = iota[kseq] <= iota[seq])
  r = sum[heads, head](o * o * (iota[head] + 1))
  return r * sin(f32(t) + 1)
}
train {
  i32 t[batch, seq] = synthetic(0, 5)
  loss = mean[batch, seq](m(t))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
