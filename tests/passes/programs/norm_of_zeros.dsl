# SPDX-License-Identifier: Apache-2.0
# The norm of a gradient that is zero: the root of a sum of zeros here, of one zero there, which the other update takes.
include "std.dsl"
dim batch = 12, seq = 8, embed = 12, vocab = 12, embed_row = 12
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  param p2[embed_row, embed] = normal(0.289)
  return wte[vocab = tokens] @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  y = m(tokens)
  loss = mean[batch, seq](xent[vocab](y, labels))
  other = mean[batch, seq, vocab](tanh(y - 0.1) * y)
  apart = adamw(lr = 0.02, clip = 0.7, own_norm = true, params = "*p2", loss = other, every = 2)
  optimizer = sgd(lr = 0.1)
  steps = 3
}
cluster c { gpus = 4; gpu = "cpu" }
parallel zero3 on c {
  mesh data = 4
  zero 3 on data (bucket = 256B)
}
