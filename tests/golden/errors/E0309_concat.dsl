dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, embed] {
  return sum[seq](concat[seq](x, x))
}
