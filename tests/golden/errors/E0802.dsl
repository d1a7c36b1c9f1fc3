# ---- next_token
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq], i32 more[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- raw
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = synthetic(0, vocab)
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- chat
include "mini/model.dsl"
train {
  i32 tokens[batch, seq] = chat("a.jsonl", tokenizer = "none")
  loss = sum[batch, seq](tiny(tokens)[vocab = tokens])
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- pack
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = chat("a.jsonl", tokenizer = "none", pack = true)
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- pairs
include "std.dsl"
dim batch = 4, pair = 2, seq = 8, vocab = 16
train {
  i32 tokens[batch, pair, seq], i32 labels[batch, pair, seq] = chat("a.jsonl", tokenizer = "none", pack = true)
  loss = mean[batch, pair, seq](f32(tokens + labels))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
