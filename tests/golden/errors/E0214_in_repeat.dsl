dim batch = 4, seq = 8, embed = 16, layers = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers { return x }
  return x
}
