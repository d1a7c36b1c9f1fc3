# SPDX-License-Identifier: Apache-2.0
# What streams with nothing between its products.
include "std.dsl"
dim batch = 4, t = 8, d = 8, s = t
fn f[s, t, d](y[..., s, d], x[..., t, d], v[..., t, d]) -> [..., s, d] {
  return (y @d x) @t v
  stream[t] { return (y @d x) @t v }
}
model m(x[batch, t, d]) -> [batch, s, d] {
  param w[d] = normal(1)
  return f[s, t, d](x[t -> s], x * w, x * 2)
}
train {
  x[batch, t, d] = synthetic(0, 1)
  loss = sum[batch, s, d](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh a = 2; shard batch on a }
