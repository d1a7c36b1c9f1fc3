dim batch = 4, seq = 8, embed = 16
axis c, chan
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[c = x.chan] = ones
  return x * sum[c](w)
}
