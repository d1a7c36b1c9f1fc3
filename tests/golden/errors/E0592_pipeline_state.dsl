# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, d = 8, layers = 4
layer f(x[batch, d], s[d]) -> [batch, d] { return x + gelu(x) * s }
model m(x[batch, d]) -> [batch, d] {
  param w[d] = ones
  state s[d] = ones
  s = 0.9 * s + 0.1 * mean[batch](x)
  repeat h in layers { x = f(x * w, s) }
  return x
}
train {
  x[batch, d] = synthetic(0, 1)
  y = m(x)
  loss = sum[batch, d](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
