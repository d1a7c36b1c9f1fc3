# ---- exact
dim batch = 4, seq = 8, embed = 16
layer mlp(x[batch, embed]) -> [batch, embed] {
  param w[embed] = ones
  return x * w
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return mlp(x) }
# ---- model
dim batch = 4, seq = 8, embed = 16
model m(x[batch, embed]) -> [batch, embed] { return x * 2 }
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = sum[batch, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
