# ---- dim
dim batch = 4, embed = 16, half = embed / 2
model m(x[batch, half]) -> [batch] { return sum[half](x) }
# ---- if
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  if sum[batch, seq, embed](x) > 0 { x = x / 2 }
  return x
}
# ---- library
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed], bool keep[batch, seq]) -> [batch, seq, embed] {
  return dense:linear[embed, wide](x, bias = keep)[wide -> embed]
}
dim wide = embed
# ---- rate
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return dropout(x, sum[batch, seq, embed](x))
}
# ---- std
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[embed] = normal(x)
  return x * w
}
# ---- step
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1 * sum[batch](uniform[batch](0, 1)))
  steps = 10
}
