# ---- missing
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  z = attend[seq, kseq, embed](x, x[seq -> kseq], scale = 0.5)
  return z
}
# ---- misspelt
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return layernorm[embed](x, epsilon = 1e-6)
}
# ---- schedule
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = constant(0.1, 5))
  steps = 10
}
# ---- too_many
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return relu(x, 0.1)
}
# ---- twice
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> dropout(x, p = 0.1)
}
# ---- is_causal
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, embed = 8
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  k = x[seq -> kseq]
  return attend[seq, kseq, embed](x, k, k, scale = 1.0, is_causal = true)
}
