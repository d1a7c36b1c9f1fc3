# What a loop along seq carries has the gradient that a loop along embed leaves, position by position, beside
# that of a parameter of each position which nothing reads.
include "std.dsl"
dim batch = 4, vocab = 8, embed = 6, row = 6, seq = 4
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab], f32[] {
  param wte[vocab, embed], turn[row, embed] = normal(0.5)
  x = wte[vocab = tokens]
  r[batch, embed] = 0.3
  repeat t in seq { r = tanh(r[embed -> row] @row turn) }
  s[batch, seq] = 0.0
  repeat u in embed {
    param spare[seq] = normal(0.5)
    s = 0.6 * s + 0.6 * r[embed = u]
    y[embed = u] = s
  }
  return x @embed wte, mean[batch, seq, embed](y * y)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z, e = m(tokens)
  loss = mean[batch, seq](xent[vocab](z, labels)) + e
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel d on c { mesh data = 2; shard batch on data; micro batch = 2 }
