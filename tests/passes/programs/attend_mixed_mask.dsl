include "std.dsl"
# A mask of data and positions, whose axes are in another order than the scores'.
dim batch = 2, seq = 3, kseq = seq, head = 4
model m(i32 t[batch, seq]) -> [batch, seq] {
  param q[batch, seq, head], k[batch, kseq, head], v[batch, kseq, head] = normal(1)
  seen = f32(t)
  o = attend[seq, kseq, head](q, k, v, scale = 0.5, mask = seen[seq -> kseq] > 0.5 and iota[kseq] <= iota[seq])
  r = sum[head](o * o * (iota[head] + 1)) + sum[head](q * q)
  return r * sin(f32(t) + 1)
}
train {
  i32 t[batch, seq] = synthetic(0, 5)
  loss = mean[batch, seq](m(t))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
