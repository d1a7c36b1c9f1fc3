dim batch = 4, embed = 8, layers = 3
layer track(x[batch, embed]) -> [batch, embed] {
  state total[embed] = zeros
  total = total + sum[batch](x)
  return x - total
}
model m(x[batch, embed]) -> [batch, embed] {
  f = t:track
  repeat h in layers { x = f(x) }
  return x
}
train {
  x[batch, embed] = synthetic(0, 1)
  loss = sum[batch, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
