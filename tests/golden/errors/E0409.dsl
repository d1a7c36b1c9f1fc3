# ---- bool
dim batch = 4, seq = 8, embed = 16, layers = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  any = false
  repeat h in layers { any = sum[batch, seq, embed](x) * h }
  return x + any
}
# ---- integer
dim batch = 4, seq = 8, embed = 16, layers = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  n = 0
  repeat h in layers { n = n + 0.5 }
  return x + n
}
