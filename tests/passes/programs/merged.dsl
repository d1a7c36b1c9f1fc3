# Two instances compute the same value from the same input.
dim batch = 2, wide = 4, layers = 3, turned = wide
layer bump(x[batch, wide], s[wide, turned]) -> [batch, wide] {
  param w[wide] = normal(1)
  y = x @wide s
  return (sin(y) @turned s) * w
}
model m(x[batch, wide]) -> [batch, wide] {
  param s[wide, turned] = normal(1)
  repeat h in layers { x = x + a:bump(x, s) + b:bump(x, s) }
  return x
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
