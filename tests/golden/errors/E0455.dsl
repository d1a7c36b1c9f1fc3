# ---- adam
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = adam(lr = 1e-3)
  steps = 10
}
# ---- order
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data (order = zigzak)
}
