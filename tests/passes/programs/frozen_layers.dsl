# A parameter of each layer that learns nothing.
dim batch = 4, wide = 4, layers = 2
model net(x[batch, wide]) -> [batch, wide] {
  repeat h in layers {
    param a[wide], b[wide] = ones
    x = x * a + stop(b)
  }
  return x
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh pipe = 2; pipeline h on pipe }
parallel q on c { mesh data = 2; shard batch on data }
parallel r on c { mesh data = 2; shard batch on data; micro batch = 2; zero 3 on data }
parallel s on c { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
