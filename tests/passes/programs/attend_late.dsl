include "std.dsl"
dim batch = 2, seq = 5, kseq = 2, head = 4, late = 1
model m(i32 t[batch, seq]) -> [batch, seq] {
  param q[batch, seq, head], k[batch, kseq, head], v[batch, kseq, head] = normal(1)
  o = attend[seq, kseq, head](q, k, v, scale = 0.5, mask = iota[kseq] + late < iota[seq])   # the first ones see nothing
  r = sum[head](o * o * (iota[head] + 1)) + sum[head](q * q)
  return r * sin(f32(t) + 1)
}
train {
  i32 t[batch, seq] = synthetic(0, 5)
  loss = mean[batch, seq](m(t))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
