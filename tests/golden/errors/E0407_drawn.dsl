dim batch = 4, seq = 8
model m(x[batch, seq]) -> [batch, seq] {
  param w[seq] = normal[seq](0, 0.02)
  return x + w * normal(0.1)
}
