dim batch = 4, seq = 8, embed = 16, heads = 3, head = 5
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  u = x[embed -> (heads, head)]
  return u[(heads, head) -> embed]
}
