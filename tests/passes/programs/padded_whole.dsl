# Parameters that the update needs whole beside a padded axis that they do not have.
include "std.dsl"
dim batch = 8, embed = 8, wide = 16, vocab = 13, layers = 2
model net(i32 tokens[batch]) -> [batch, vocab] {
  param wte[vocab, embed] = normal(0.5)
  x = wte[vocab = tokens]
  repeat h in layers {
    param up[embed, wide], down[wide, embed] = normal(0.3)
    x = x + relu(x @embed up) @wide down
  }
  return x @embed wte
}
train {
  i32 tokens[batch] = synthetic(0, vocab)
  i32 labels[batch] = synthetic(0, vocab)
  loss = mean[batch](xent[vocab](net(tokens), labels))
  optimizer = muon(lr = 0.02, clip = 1.0)
  tables = adamw(lr = 0.01, params = ("wte"))
  steps = 5
}
cluster c { gpus = 4; gpu = "cpu" }
parallel p1 on c { mesh d = 2, t = 2; shard batch on d; shard vocab on t (pad = 2); zero 1 on d }
parallel p2 on c { mesh d = 2, t = 2; shard batch on d; shard vocab, wide on t (pad = 2); zero 2 on d }
parallel p3 on c { mesh d = 2, t = 2; shard batch on d; shard vocab on t (pad = 4); zero 3 on d; micro batch = 2 }
