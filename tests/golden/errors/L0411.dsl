# ---- state
include "std.dsl"
dim batch = 4, d = 3
model m(x[batch, d]) -> [batch] {
  param w[d] = normal(0.1)
  state mu[d] = zeros
  mu = mean[batch](x)
  y = (x - mu) @d w
  return y
}
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch](m(x))
  optimizer = sgd(0.1)
  steps = 2
}
