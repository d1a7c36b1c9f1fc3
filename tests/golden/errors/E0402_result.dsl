dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> f32[batch, seq, embed] {
  return x > 0
}
