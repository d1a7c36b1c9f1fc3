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
# ---- schedule_of_rate
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = warmup_cosin(0.1, total = 10))
  steps = 10
}
