# An optimizer of one's own that needs a gradient's absolute value, and adds the gradient to a state as it is. The table at both ends
# of a pipeline has a term of its gradient on each stage: they are added up before, in buckets of `zero` that the optimizer needs whole.
include "std.dsl"
fn own(p[...], g[...], updates, lr, factor = 0.9) -> [...] {
  state mean[...], most[...] = zeros
  next = factor * mean + g
  high = max(0.9 * most, abs(g))
  mean = next
  most = high
  return p - lr * next / (high + 0.01 * sqrt(updates))
}
dim batch = 8, embed = 8, mid = 8, seq = 5, vocab = 16, layers = 2
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.7)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + down:linear[mid, embed](up:linear[embed, mid](x, std = 0.3), std = 0.3) }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = own(lr = inverse_sqrt(0.1, warmup = 3))
  steps = 3
}
cluster four { gpus = 4; gpu = "cpu" }
parallel one on four { mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = "1f1b"); micro batch = 2; zero 1 on data }
parallel two on four {
  mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = "gpipe"); micro batch = 2
  zero 2 on data (bucket = 256B)
}
parallel three on four {
  mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = "1f1b"); micro batch = 4
  zero 3 on data (prefetch = 0); remat h
}
