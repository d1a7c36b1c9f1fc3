dim batch = 4, seq = 8, embed = 16, embd = 16
model m(x[batch, seq, embed]) -> [batch, seq] {
  return x[embd = 0]
}
