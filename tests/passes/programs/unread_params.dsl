# Parameters of pipelined loops that nothing reads, or only where nothing learns.
dim batch = 4, wide = 4, layers = 4
model net(x[batch, wide]) -> [batch, wide] {
  y = x
  repeat h in layers {
    param v[wide] = ones
    y = tanh(y)
    r[batch] = 0.3
    repeat t in wide { z[wide = t] = r }
    y = z * r
  }
  repeat g in layers {
    param w[wide], unread[wide] = ones
    x = x * w
  }
  return x + y
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster d { gpus = 4; gpu = "cpu" }
cluster c { gpus = 2; gpu = "cpu" }
parallel r on c { mesh pipe = 2; pipeline h, g on pipe }
parallel m on c { mesh pipe = 2; pipeline h, g on pipe; micro batch = 2 }
parallel s on d { mesh pipe = 4; pipeline h, g on pipe (schedule = "1f1b"); micro batch = 2; remat g }
parallel t on c { mesh pipe = 2; pipeline h on pipe; micro batch = 2; remat h }
