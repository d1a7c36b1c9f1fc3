dim batch = 8, d = 8, layers = 4, deep = 2
model m(x[batch, d]) -> [batch, d] {
  repeat h in layers {
    param w[d] = ones
    repeat g in deep { x = x * w }
  }
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
parallel two on pair { mesh pipe = 2; pipeline g on pipe; micro batch = 2 }
