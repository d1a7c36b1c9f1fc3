# SPDX-License-Identifier: Apache-2.0
# A model that generates with a cache; the file that includes this one defines how positions are mixed.
dim batch = 4, seq = 8, kseq = seq, vocab = 16, embed = 8
model decoder(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  x = wte[vocab = tokens]
  return (x + mix(x)) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, 16))
  loss = mean[batch, seq](xent[vocab](decoder(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 10
  generate = cached(rows = 1, chunk = 4)
}
