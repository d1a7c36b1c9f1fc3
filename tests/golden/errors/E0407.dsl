# ---- drawn
dim batch = 4, seq = 8
model m(x[batch, seq]) -> [batch, seq] {
  param w[seq] = normal[seq](0, 0.02)
  return x + w * normal(0.1)
}
# ---- tensor
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[embed] = sum[batch, seq](x)
  return x * w
}
# ---- value
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x + zeros
}
