# ---- probability
dim batch = 4, seq = 8
model m(x[batch, seq]) -> [batch, seq] {
  a = where(bernoulli[batch](1.5), x, 0)
  b = normal[batch, seq](x, -1)
  return a + b + uniform[seq](3, 2)
}
# ---- rate
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return dropout(x, 1.0)
}
# ---- std
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[embed] = normal(-0.02)
  return x * w
}
