# ---- dim
dim batch = 4, seq = 8, embed = 16, vocb = 100
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x
}
# ---- two
dim batch = 4, seq = 8, embed = 16, n = 2, k = n
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x
}
