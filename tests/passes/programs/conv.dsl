include "std.dsl"
dim batch = 2
model m(x[batch, height = 6, width = 4, chan = 3]) -> [batch] {
  y = c1:conv(x, 2) |> sin
  z = c2:conv(y, 3, k = 2, stride = 2) |> maxpool
  return sum[height, width, chan](z * z)
}
train {
  x[batch, height = 6, width = 4, chan = 3] = synthetic(-1, 1)
  loss = mean[batch](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
