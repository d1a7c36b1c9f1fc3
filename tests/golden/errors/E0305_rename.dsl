dim batch = 4, seq = 16, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x[seq -> embed]
}
