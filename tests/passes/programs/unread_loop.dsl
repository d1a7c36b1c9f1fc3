# A loop whose result nobody reads.
dim batch = 4, wide = 4, layers = 2
model net(x[batch, wide]) -> [batch, wide] {
  y = x
  repeat h in layers {
    param v[wide] = ones
    y = y * v
  }
  repeat g in layers {
    param w[wide] = ones
    x = x * w
  }
  return x
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh pipe = 2; pipeline g on pipe }
parallel q on c { mesh data = 2; shard batch on data }
parallel r on c { mesh pipe = 2; pipeline h, g on pipe }
