include "std.dsl"
dim batch = 2, seq = 3, embed = 4, a = 2, b = 3
model m(i32 t[batch, seq]) -> [batch, seq] {
  param x[batch, seq, embed] = normal(1)
  y = l1:linear[embed, (a, b)](x)
  z = l2:linear[(a, b), embed](y * y, bias = false)
  r = sum[embed](z * z)
  return r * sin(f32(t) + 1)
}
train {
  i32 t[batch, seq] = synthetic(0, 5)
  loss = mean[batch, seq](m(t))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
