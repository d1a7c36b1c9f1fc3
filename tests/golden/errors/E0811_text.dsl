include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("a.txt", to = 0.9))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
