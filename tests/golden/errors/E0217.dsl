# ---- in_loop
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
# ---- instance_outside_loop
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
# ---- twice
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
# ---- without_train
dim batch = 4, embed = 8
layer track(x[batch, embed]) -> [batch, embed] {
  state total[embed] = zeros
  total = total + sum[batch](x)
  total = total * 0.9
  return x - total
}
model m(x[batch, embed]) -> [batch, embed] { return track(x) }
