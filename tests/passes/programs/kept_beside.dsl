# What a product keeps for its gradient is read by what goes with it, and put beside what becomes of it.
include "std.dsl"
dim batch = 12, embed = 12, seq = 5, vocab = 16, wide = 3, layers4 = 4, two = 2
model m(i32 tokens[batch, seq]) -> [batch, seq, embed] {
  param wte[vocab, embed] = normal(0.7)
  c3 = wte[vocab = tokens]
  repeat h2 in layers4 {
    v6 = l5:linear[embed, wide](c3, std = 0.289)
    v7 = gelu_tanh(v6)
    v8 = stack[two](v6, v7)
    v9 = v8[two = 0]
    v11 = l10:linear[wide, embed](v9, std = 0.577)
    c3 = 0.6 * c3 + 0.6 * v11
  }
  return c3
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  y = m(tokens)
  loss = mean[batch, seq, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 3
}
