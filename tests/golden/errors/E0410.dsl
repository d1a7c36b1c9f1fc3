# ---- state
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
# ---- tuple
dim batch = 4, seq = 8, embed = 16, layers = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  pair = (x, x)
  repeat h in layers { pair = (x, x) }
  return x
}
