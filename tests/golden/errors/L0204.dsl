# ---- allowed
include "std.dsl"
dim batch = 4, d = 3
dim lonely = 4 # lint: allow L0202 - kept for other files
# lint: allow L0202
dim other = 4
model m(x[batch, d]) -> [batch] {
  param w[d] = normal(0.1)
  state mu[d] = zeros
  mu = mean[batch](x)
  y = (x - mu) @d w # lint: allow L0411, L0999 - old value meant
  return y # lint: allow L0301
}
train {
  x[batch, d] = synthetic(0, 1)
  loss = sum[batch](m(x))
  optimizer = sgd(0.1)
  steps = 2
}
dim five = 5
