# ---- rate_twice
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(0.1, lr = 0.2)
  steps = 10
}
# ---- steps
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
  steps = 20
}
# ---- group
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  z = sgd(lr = 0.2, params = "*")
  steps = 10
}
