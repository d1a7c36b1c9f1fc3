# SPDX-License-Identifier: Apache-2.0
# Long rows: of a norm, with sums over them (the gradients of its gain and shift), and of a softmax. Nothing of the size of
# x leaves a kernel, so that few rows are enough for them to be in one.
include "std.dsl"
dim batch = 70, wide = 4204
model rows(x[batch, wide]) -> [batch] {
  param mix[wide] = normal(1)
  return sum[wide](softmax[wide](n:layernorm[wide](x)) * mix)
}
train {
  x[batch, wide] = synthetic(0, 1)
  y[batch] = synthetic(0, 1)
  loss = mean[batch]((rows(x) - y) ** 2)
  optimizer = adamw(lr = 1e-3)
  steps = 3
  predict_rows = 70
}
