# ---- cluster_color
include "mini/train.dsl"
cluster c { gpus = 2; gpu = "cpu"; colour = 3; node = 2 }
# ---- optimiser
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimiser = adamw(lr = 1e-3)
  steps = 10
}
# ---- option_of_adamw
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = adamw(lr = 1e-3, beta = (0.9, 0.99))
  steps = 10
}
# ---- option_of_shard
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data (padding = 4)
}
# ---- step
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  step = 100
  steps = 10
}
# ---- epochs_of_another_framework
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](tiny(tokens)[vocab = labels])
  optimizer = sgd(lr = 0.1)
  num_epochs = 3
}
