# ---- index
dim batch = 4, vocab = 10, embed = 16
fn embed_ids(w[vocab, embed], i32 ids[...]) -> [..., embed] { return w[vocab = ids] }
model m(ids[batch]) -> [batch, embed] {
  param w[vocab, embed] = normal(0.02)
  return embed_ids(w, ids)
}
# ---- labels
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed], y[batch, seq]) -> [batch, seq] {
  return xent[embed](x, y)
}
# ---- rate
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = true)
  steps = 10
}
# ---- result
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> f32[batch, seq, embed] {
  return x > 0
}
