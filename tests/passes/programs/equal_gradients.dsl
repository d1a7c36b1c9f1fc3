# Nine parameters of one gradient, which is one value in nine places.
include "std.dsl"
dim batch = 8, vocab = 16, embed = 8, hidden = 8
model m(i32 tokens[batch]) -> [batch, vocab] {
  param wte[vocab, embed] = normal(0.1)
  x = wte[vocab = tokens]
  y = l0:linear[embed, hidden](x) + l1:linear[embed, hidden](x) + l2:linear[embed, hidden](x) +
    l3:linear[embed, hidden](x) + l4:linear[embed, hidden](x) + l5:linear[embed, hidden](x) +
    l6:linear[embed, hidden](x) + l7:linear[embed, hidden](x) + l8:linear[embed, hidden](x)
  return y[hidden -> embed] @embed wte
}
train {
  i32 tokens[batch] = synthetic(0, vocab)
  i32 labels[batch] = synthetic(0, vocab)
  loss = mean[batch](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 1e-3)
  steps = 2
}
