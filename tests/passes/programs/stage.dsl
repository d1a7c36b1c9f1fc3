# Two iterations on two stages; `emb` is on both. No library here: its places would be in golden files.
dim batch = 2, vocab = 4, embed = 3, layers = 2
model m(i32 tokens[batch]) -> [batch, vocab] {
  param emb[vocab, embed] = normal(1)
  x = emb[vocab = tokens]
  repeat h in layers {
    param w[embed] = normal(1)
    x = tanh(x * w)
  }
  return x @embed emb
}
train {
  i32 tokens[batch] = synthetic(0, vocab)
  loss = sum[batch, vocab](m(tokens)) / 8
  optimizer = sgd(lr = 0.1)
  steps = 1
}
