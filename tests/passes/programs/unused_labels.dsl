# Samples of which one part is read by nobody.
include "std.dsl"
dim batch = 4, seq = 8, vocab = 8, embed = 4
model net(i32 tokens[batch, seq]) -> [batch, seq, embed] { param wte[vocab, embed] = normal(0.5); return wte[vocab = tokens] }
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = sum[batch, seq, embed](net(tokens))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh data = 2; shard batch on data }
