# ---- batch_over_both
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  micro batch = 8
}
# ---- long
include "std.dsl"
dim batch = 8, seq = 8, vocab = 13, embed = 8, ffn = 3000000001
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  param up[embed, ffn] = normal(0.1)
  param down[ffn, embed] = normal(0.1)
  return wte[vocab = tokens] @embed up @ffn down @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel tensor on pair { mesh tp = 2; shard ffn on tp }
# ---- micro
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  micro batch = 3
}
# ---- vocab
include "mini/train.dsl"
cluster four { gpus = 4; gpu = "cpu" }
parallel p on four {
  mesh tensor = 4
  shard vocab on tensor
}
# ---- zigzag
include "mini/train.dsl"
parallel p on pair {
  mesh context = 2
  shard seq on context (order = zigzag)
}
# ---- prime
dim batch = 4, node = 13
model net(x[batch, node]) -> [batch] { param w[node] = ones; return sum[node](x * w) }
train { x[batch, node] = synthetic(0, 1); loss = sum[batch](net(x)); optimizer = sgd(0.1); steps = 1 }
cluster pair { gpus = 2; gpu = "cpu" }
parallel split on pair { mesh tensor = 2; shard node on tensor }
