dim batch = 4, vocab = 10, embed = 16
model m(x[batch]) -> [batch, embed] {
  param w[vocab, embed] = normal(0.02)
  return w[vocab = x]
}
