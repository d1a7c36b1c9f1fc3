dim batch = 4, seq = 8, embed = 16, three = 3
axis rest
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  u = x[embed -> (three, rest)]
  return u[(three, rest) -> embed]
}
