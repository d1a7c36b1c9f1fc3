# dtc --no-kernels --report
include "std.dsl"
dim batch = 12, seq = 8, vocab = 16, embed = 8
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  return wte[vocab = tokens] @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel both on four {
  mesh data = 4
  shard batch on data (pad = 8)
  micro batch = 3
}
