dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq]) -> [batch, embed] {
  k = x[seq -> embed]
  return k
}
