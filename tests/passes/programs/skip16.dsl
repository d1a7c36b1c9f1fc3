# A linear layer in front of a pipeline whose result goes past it, too, and one behind: both biases are made by one
# function, in 16 bits, and stages add up terms of the first.
include "std.dsl"
dim batch = 4, embed = 8, seq = 8, vocab = 10, mid = 8, layers = 2
model m(i32 tokens[batch, seq]) -> [batch, seq, embed] {
  param wte[vocab, embed] = normal(0.7)
  x = wte[vocab = tokens]
  s = a:linear[embed, mid](x)[mid -> embed]
  c = s
  repeat h in layers { c = 0.6 * c + 0.6 * tanh(c) }
  return o2:linear[embed, mid](c)[mid -> embed] + 0.4 * s
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  y = m(tokens)
  loss = mean[batch, seq, embed](sin(y) * y)
  optimizer = sgd(lr = 0.1)
  precision = mixed(compute = bf16, params = f32, grads = f32)
  steps = 3
}
cluster k { gpus = 2; gpu = "cpu" }
parallel pipes on k { mesh pipe = 2; pipeline h on pipe }
