include "std.dsl"
dim batch = 2, seq = 3, d = 4
model m(i32 t[batch, seq]) -> [batch, seq] {
  param x[batch, seq, d] = normal(1)
  r = lse[d](x)
  return r * sin(f32(t) + 1)
}
train {
  i32 t[batch, seq] = synthetic(0, 5)
  loss = mean[batch, seq](m(t))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
