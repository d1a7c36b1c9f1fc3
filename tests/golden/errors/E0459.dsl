# ---- directive_in_cluster
include "mini/train.dsl"
cluster c { gpus = 2; gpu = "cpu"; mesh data = 2 }
# ---- directive_in_train
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
  micro batch = 4
}
# ---- setting_in_parallel
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  chunks = 2
}
