# Two tables that the same tokens read, one of them also at the end: one gradient is a term of the other, and both go to
# one bucket.
include "std.dsl"
dim batch = 4, embed = 8, seq = 4, vocab = 10
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed], more[vocab, embed] = normal(0.5)
  return (wte[vocab = tokens] + more[vocab = tokens]) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 0.01)
  steps = 2
}
cluster c { gpus = 4; gpu = "cpu" }
parallel whole on c { mesh a = 2, b = 2; zero 3 on a, b }
parallel rows on c { mesh a = 2, b = 2; shard batch on a; zero 2 on a, b; micro batch = 2 }
