# SPDX-License-Identifier: Apache-2.0
# One parameter only: the sum of squares behind the norm has one term. On both stages, or in the loop that is cut.
include "std.dsl"
dim batch = 8, vocab = 16, embed = 8, ffn = embed, seq = 4, layers = 4
model tied(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  x = wte[vocab = tokens]
  repeat h in layers { x = x * (h + 1) }
  return x @embed wte
}
layer turn(x[batch, embed]) -> [batch, embed] {
  param w[embed, ffn] = normal(0.3)
  return sin(x @embed w)[ffn -> embed]
}
model deep(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = x + turn(x) }
  return x
}
train shares {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](tied(tokens), labels))
  optimizer = adamw(lr = 0.1, clip = 0.01)
  steps = 2
}
train looped {
  x[batch, embed] = synthetic(0, 1)
  y = deep(x)
  loss = mean[batch, embed](y * y)
  optimizer = sgd(lr = 0.1, clip = 0.01)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel shared on pair { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
parallel zero on four { mesh data = 2, pipe = 2; shard batch on data; pipeline h on pipe; micro batch = 2; zero 1 on data }
