dim batch = 4, embed = 8
layer track(x[batch, embed]) -> [batch, embed] {
  state total[embed] = zeros
  total = total + sum[batch](x)
  total = total * 0.9
  return x - total
}
train {
  x[batch, embed] = synthetic(0, 1)
  loss = sum[batch, embed](track(x))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
