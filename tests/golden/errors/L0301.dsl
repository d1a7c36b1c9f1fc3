# ---- names
dim batch = 4, seq = 8, kseq = seq, embed = 16
model m(x[batch, seq], y[batch, kseq, embed]) -> [batch, seq, embed] {
  return sum[kseq](x * y)
}
# ---- outer
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  s = sum[seq](x)
  t = sum[embed](x)
  return s * t
}
