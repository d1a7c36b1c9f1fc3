# SPDX-License-Identifier: Apache-2.0
# A deep residual network, normalised over few samples, which magnifies roundings a million times.
include "std.dsl"
dim batch = 4, wide = 8, more = 8, layers = 64, classes = 4
layer norm(x[batch, more]) -> [batch, more] {
  param gain[more] = ones
  param shift[more] = zeros
  u = x - mean[batch](x)
  return u * rsqrt(mean[batch](u * u) + 1e-5) * gain + shift
}
model net(x[batch, wide]) -> [batch, classes] {
  repeat h in layers { x = relu(norm(l:linear[wide, more](x, std = 0.5)))[more -> wide] + x * 0.25 }
  return x |> f:linear[wide, classes]
}
train {
  x[batch, wide] = synthetic(-1, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](net(x), label))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel both on pair { mesh data = 2; shard batch on data }
