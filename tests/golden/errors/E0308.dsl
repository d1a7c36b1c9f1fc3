# ---- negative
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, embed] {
  return x[seq = -1]
}
# ---- range
dim batch = 4
axis tok
model m(x[batch, tok = 9]) -> [batch] {
  return sum[tok](x[tok = 2 .. 12])
}
# ---- select
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, embed] {
  return x[seq = 8]
}
