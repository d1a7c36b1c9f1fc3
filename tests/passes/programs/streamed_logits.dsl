# SPDX-License-Identifier: Apache-2.0
# Logits that are never stored: xent computes them block by block. The table is tied, the labels of
# some rows are outside of the vocabulary.
include "std.dsl"
dim batch = 4, seq = 6, vocab = 12, embed = 8, ffn = 6, layers = 2
layer head(x[batch, seq, embed], table[vocab, embed]) -> [batch, seq, vocab] {
  return norm:rmsnorm[embed](x) @embed table
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + (tanh(up:linear[embed, ffn](x)) |> down:linear[ffn, embed]) }
  return out:head(x, wte)
}
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  i32 labels[batch, seq] = synthetic(-2, vocab + 2)
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 0.1, clip = 1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel data on c { mesh d = 2; shard batch on d; zero 3 on d; stream vocab }
parallel rows on c { mesh s = 2; shard seq on s; micro batch = 2; stream vocab }
parallel pipe on c { mesh p = 2; pipeline h on p; micro batch = 2; stream vocab }
