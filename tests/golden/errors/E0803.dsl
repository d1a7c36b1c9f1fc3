# ---- dtype
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = i32(labels)])
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- sample_axis
include "mini/model.dsl"
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  weights[seq, batch] = synthetic(0, 1)
  loss = sum[batch, seq](weights * max[vocab](tiny(tokens)))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- synthetic
dim batch = 4, bins = 8
model counts(i32 x[batch], scale[batch]) -> [batch] {
  param w[bins] = normal(0.02)
  return w[bins = x % bins] * scale
}
train {
  i32 x[batch] = synthetic(0, 5e9)
  scale[batch] = synthetic(-1e39, 1)
  loss = sum[batch](counts(x, scale))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
