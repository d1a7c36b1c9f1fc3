dim batch = 4, seq = 8
model m(x[batch, seq]) -> [batch, seq] {
  a = where(bernoulli[batch](1.5), x, 0)
  b = normal[batch, seq](x, -1)
  return a + b + uniform[seq](3, 2)
}
