# ---- grows
dim batch = 4, seq = 8, embed = 16, layers = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  y = f32(0)
  repeat h in layers { y = y + x }
  return y
}
# ---- shrinks
dim batch = 4, seq = 8, embed = 16, layers = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  y = x
  repeat h in layers { y = max[seq](y) }
  return x + y
}
