include "std.dsl"
dim batch = 2, seq = 3
model m(i32 t[batch, seq]) -> [batch, seq] {
  param x[batch, seq] = normal(1.5)
  r = relu(x) * x
  return r * sin(f32(t) + 1)
}
train {
  i32 t[batch, seq] = synthetic(0, 5)
  loss = mean[batch, seq](m(t))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
