dim batch = 4, embed = 8
layer track(x[batch, embed]) -> [batch, embed] {
  state last[embed] = zeros
  last = x
  return x
}
train {
  x[batch, embed] = synthetic(0, 1)
  loss = sum[batch, embed](track(x))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
