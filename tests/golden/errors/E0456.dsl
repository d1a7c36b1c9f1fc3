# ---- sgd
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(0.1, 0.9, 0.0, true, 1.0, false, 2.0)
  steps = 10
}
