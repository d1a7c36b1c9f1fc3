# dtc --no-kernels --report
dim batch = 4, d = 8, layers = 4
model scaled(x[batch, d]) -> [batch, d] {
  param w[d] = ones
  return x * w
}
model m(x[batch, d]) -> [batch, d] {
  repeat h in layers { x = x + tanh(x) }
  return x
}
train {
  x[batch, d] = synthetic(0, 1)
  y = m(m(scaled(x)))
  loss = sum[batch, d](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
