include "std.dsl"
dim batch = 2, seq = 3, classes = 5
model m(i32 t[batch, seq]) -> [batch, seq] {
  param z[batch, classes, seq] = normal(1)
  r = xent[classes](z, t - 1) + xent[classes](z, t) * 0.5       # -1: ignored
  return r * sin(f32(t) + 1)
}
train {
  i32 t[batch, seq] = synthetic(0, 5)
  loss = mean[batch, seq](m(t))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
