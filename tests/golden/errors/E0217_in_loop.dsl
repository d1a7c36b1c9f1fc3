dim batch = 4, embed = 8, layers = 3
layer track(x[batch, embed]) -> [batch, embed] {
  state total[embed] = zeros
  repeat h in layers {
    total = total + sum[batch](x)
    x = x * 0.5
  }
  return x - total
}
train {
  x[batch, embed] = synthetic(0, 1)
  loss = sum[batch, embed](track(x))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
