# SPDX-License-Identifier: Apache-2.0
# Long rows of 16 and of 32 bits in one kernel, four elements a thread since it draws: rows of 16 bits end at 8 bytes.
include "std.dsl"
dim batch = 20, wide = 4100
model rows(x[batch, wide], z[batch, wide]) -> [batch] {
  param low[wide] = normal(1)
  param mix[wide] = normal(1)
  return sum[wide](softmax[wide](dropout(layernorm[wide](x), 0.25) + z + low) * mix)
}
train {
  x[batch, wide] = synthetic(0, 1)
  z[batch, wide] = synthetic(0, 1)
  y[batch] = synthetic(0, 1)
  loss = mean[batch]((rows(x, z) - y) ** 2)
  optimizer = adamw(lr = 1e-3)
  precision = mixed(compute = bf16, params = bf16, grads = f32)
  steps = 3
}
