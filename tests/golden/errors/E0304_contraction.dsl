dim batch = 4, seq = 8, embed = 16, heads = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[heads, embed] = normal(0.02)
  return x @heads w
}
