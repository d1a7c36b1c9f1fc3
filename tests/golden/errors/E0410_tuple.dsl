dim batch = 4, seq = 8, embed = 16, layers = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  pair = (x, x)
  repeat h in layers { pair = (x, x) }
  return x
}
