dim batch = 4, seq = 8, kseq = seq, embed = 16
model m(x[batch, seq], y[batch, kseq, embed]) -> [batch, seq, embed] {
  return sum[kseq](x * y)
}
