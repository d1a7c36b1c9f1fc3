# ---- forgotten
include "std.dsl"
dim batch = 4, seq = 4, vocab = 8, embed = 4, layers = 2, inner = 8
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return down:linear[inner, embed](gelu(up:linear[embed, inner](x)))
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  param wpe[seq, embed] = normal(0.1)
  param _later[embed] = zeros
  x = wte[vocab = tokens]
  repeat h in layers { _x = x + mlp(x) }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
# ---- state_and_metric_count
include "std.dsl"
dim batch = 4, embed = 4
model m(x[batch, embed]) -> [batch, embed], [batch, embed] {
  param a[embed] = ones
  param b[embed] = ones
  param c[embed] = ones
  param d[embed] = ones
  state seen[embed] = zeros
  seen = mean[batch](x) * c
  return x * a, x * b
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y, z = m(x)
  loss = mean[batch, embed](y ** 2)
  size = mean[batch, embed](z)
  metrics = size
  optimizer = sgd(lr = 0.1)
  steps = 2
}
