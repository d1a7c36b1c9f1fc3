# ---- larger
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("a.txt", tokenizer = "mini/bytes.json", end = "<end>"))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- kind
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("a.txt", tokenizer = "mini/unigram.json"))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- end
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("a.txt", tokenizer = "mini/bytes.json", end = "</s>"))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- alone
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("a.txt", end = "<end>"))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
