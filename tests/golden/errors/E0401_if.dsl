dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  if sum[batch, seq, embed](x) > 0 { x = x / 2 }
  return x
}
