# ---- synthetic
include "mini/model.dsl"
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  i32 labels[batch, seq] = synthetic(-100, 100)       # below 0 is asked for, above the end is not
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0, z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  eval = every(5, data = (synthetic(0, vocab), synthetic(-100, vocab)))
  steps = 10
}
# ---- text
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("a.txt", to = 0.9))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
