dim batch = 4, seq = 8, embed = 16
layer mlp(x[batch, embed]) -> [batch, embed] {
  param w[embed] = ones
  return x * w
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return mlp(x) }
