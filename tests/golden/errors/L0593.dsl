# ---- gpus
# dtc --target=cpu --no-kernels -o plan
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
}
cluster dgx { nodes = 1; gpus = 4; gpu = "a100-80g"; intra = link(300GB/s, 2us) }
parallel dp on dgx { mesh data = 4; shard batch on data }
# ---- machines
# dtc --no-kernels -o plan
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
}
cluster hall { nodes = 2; gpus = 4; gpu = "cpu"; intra = link(450GB/s, 2us); inter = link(50GB/s, 5us) }
parallel dp on hall { mesh data = 8; shard batch on data }
