dim batch = 4, seq = 8, embed = 16, tok = 8
model m(x[batch, embed]) -> [batch, seq, embed] {
  return x[tok -> seq]
}
