# ---- sampler
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
  eval = every(5, data = text("a.txt"))
}
# ---- two
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
  eval = every(5, data = (next_token(text("a.txt")), next_token(text("b.txt"))))
}
