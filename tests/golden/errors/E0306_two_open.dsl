dim batch = 4, seq = 8, embed = 16
axis p, q
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  u = x[embed -> (p, q)]
  return u[(p, q) -> embed]
}
