# Products of the size at which a GPU's library is fastest, for the rate that others are compared with: forward and two
# backward products of each of two matrices.
include "std.dsl"
dim batch = 8192, a = 8192, b = 8192
model two(i32 label[batch]) -> [batch, a] {
  x = normal[batch, a](0, 1) + label
  return x |> up:linear[a, b](bias = false) |> down:linear[b, a](bias = false)
}
train {
  i32 label[batch] = synthetic(0, 2)
  y = two(label)
  loss = mean[batch, a](y * y)
  optimizer = sgd(lr = constant(1e-6))
  precision = mixed(compute = bf16, params = f32, grads = f32, reduce = f32)
  steps = 10
}
