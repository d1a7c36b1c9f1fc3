# SPDX-License-Identifier: Apache-2.0
# The medium LSTM of Zaremba et al. ("Recurrent Neural Network Regularization", 2014) for words of the Penn Treebank, without its
# dropout: two layers of 650, one bias for each gate. 19,775,200 parameters.
include "std.dsl"
dim batch = 20, seq = 35, vocab = 10_000, embed = 650, hidden = 650, hidden1 = hidden, gates = 4

layer cell[a](x[batch, seq, a]) -> [batch, seq, hidden] {
  param w[a, gates, hidden1], u[hidden, gates, hidden1] = uniform(-0.3, 0.3)
  param b[gates, hidden1] = zeros
  h[batch, hidden], c[batch, hidden1] = 0.0, 0.0
  z = x @a w + b
  repeat t in seq {
    i, f, o, g = unstack[gates](z[seq = t] + h @hidden u)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = (sigmoid(o) * tanh(c))[hidden1 -> hidden]
    y[seq = t] = h
  }
  return y
}
model lstm(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = uniform(-0.3, 0.3)
  y = first:cell[embed](wte[vocab = tokens])
  return second:cell[hidden](y) |> out:linear[hidden, vocab](std = 0.3)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](lstm(tokens), labels))
  optimizer = sgd(lr = 1, clip = 5)
  steps = 50_000
}
