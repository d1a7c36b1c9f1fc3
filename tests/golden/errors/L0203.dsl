# ---- axis
dim batch = 4, seq = 8, embed = 16
axis tok
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x
}
# ---- two
dim batch = 4, seq = 8, embed = 16
axis tok, chan
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x
}
