# A parameter that each layer adds to a carried sum: its gradient is a sum of sums.
dim batch = 4, wide = 4, layers = 2
model net(x[batch, wide]) -> [batch, wide] {
  param s[wide] = ones
  y = x
  c = s
  repeat h in layers { x = x + sin(y); y = y + c }
  return x + y
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.01)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh pipe = 2; pipeline h on pipe }
parallel q on c { mesh data = 2; shard batch on data; micro batch = 2 }
parallel r on c { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
cluster one { gpus = 1; gpu = "cpu" }
parallel s on c { mesh pipe = 2; pipeline h on pipe (schedule = "zb_h1"); micro batch = 4 }
