# ---- concat
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, embed] {
  return sum[seq](concat[seq](x, x))
}
# ---- range
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, embed] {
  return sum[seq](x[seq = 0 .. 4])
}
# ---- window
dim batch = 4, seq = 8, embed = 16
axis part
model m(x[batch, seq, embed]) -> [batch, embed] {
  w = window[seq, part](x, 3)
  return sum[seq, part](w)
}
