dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed], i32 mask[batch, seq]) -> [batch, seq, embed] {
  return where(mask, x, 0)
}
