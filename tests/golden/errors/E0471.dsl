# ---- every
include "std.dsl"
dim batch = 4, one = 1
model m(x[batch]) -> [batch], [] {
  param w[one] = 1
  param v[one] = 1
  param u[one] = 1
  return x * w[one = 0] * u[one = 0], v[one = 0]
}
train {
  x[batch] = synthetic(0, 1)
  y, v = m(x)
  near = mean[batch](y)
  far = mean[batch](y * v)
  first = sgd(lr = 0.1, params = "w", loss = near, every = 2)
  second = sgd(lr = 0.1, params = "v", loss = far)
  third = sgd(lr = 0.1, params = "u", loss = near)
  steps = 10
}
# ---- never
include "std.dsl"
dim batch = 4, one = 1
model m(x[batch]) -> [batch] { param w[one] = 1; return x * w[one = 0] }
train {
  x[batch] = synthetic(0, 1)
  loss = mean[batch](m(x))
  optimizer = sgd(lr = 0.1, every = 5)
  steps = 10
}
# ---- path
include "std.dsl"
dim batch = 4, one = 1
model m(x[batch]) -> [batch] { param w[one] = 1; return x * w[one = 0] }
train {
  x[batch] = synthetic(0, 1)
  near = mean[batch](m(x))
  optimizer = sgd(lr = 0.1, loss = (near, near))
  steps = 10
}
# ---- many
include "std.dsl"
dim batch = 4, one = 1
model m(x[batch]) -> [batch] {
  param w0[one] = 1
  param w1[one] = 1
  param w2[one] = 1
  param w3[one] = 1
  param w4[one] = 1
  param w5[one] = 1
  param w6[one] = 1
  param w7[one] = 1
  param w8[one] = 1
  w = w0 + w1 + w2 + w3 + w4 + w5 + w6 + w7 + w8
  return x * w[one = 0]
}
train {
  x[batch] = synthetic(0, 1)
  y = mean[batch](m(x))
  l0 = 1 * y
  of0 = sgd(lr = 1, params = "w0", loss = l0)
  l1 = 2 * y
  of1 = sgd(lr = 1, params = "w1", loss = l1)
  l2 = 3 * y
  of2 = sgd(lr = 1, params = "w2", loss = l2)
  l3 = 4 * y
  of3 = sgd(lr = 1, params = "w3", loss = l3)
  l4 = 5 * y
  of4 = sgd(lr = 1, params = "w4", loss = l4)
  l5 = 6 * y
  of5 = sgd(lr = 1, params = "w5", loss = l5)
  l6 = 7 * y
  of6 = sgd(lr = 1, params = "w6", loss = l6)
  l7 = 8 * y
  of7 = sgd(lr = 1, params = "w7", loss = l7)
  l8 = 9 * y
  of8 = sgd(lr = 1, params = "w8", loss = l8)
  steps = 10
}
