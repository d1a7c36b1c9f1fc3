# ---- mesh_zero
include "mini/train.dsl"
parallel p on pair {
  mesh data = 0
  shard batch on data
}
# ---- prefetch
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  zero 3 on data (prefetch = 65)
}
# ---- steps_zero
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 0
}
