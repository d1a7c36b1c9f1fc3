# ---- tensor
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in x { x = x / 2 }
  return x
}
# ---- zero
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in 0 { x = x / 2 }
  return x
}
