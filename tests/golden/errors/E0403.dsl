# ---- and
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return where(x and x > 1, x, 0)
}
# ---- contraction
dim batch = 4, embed = 16
model m(i32 i[batch, embed]) -> [batch] {
  return iota[embed] @embed i
}
# ---- gather
dim batch = 4, vocab = 10, embed = 16
model m(x[batch]) -> [batch, embed] {
  param w[vocab, embed] = normal(0.02)
  return w[vocab = x]
}
# ---- where
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed], i32 mask[batch, seq]) -> [batch, seq, embed] {
  return where(mask, x, 0)
}
