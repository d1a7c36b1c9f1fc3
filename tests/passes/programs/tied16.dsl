# SPDX-License-Identifier: Apache-2.0
# A tied table whose gradient goes to f32, as the parameter is, and back to 16 bits, as gradients are: it is what it was.
include "std.dsl"
dim batch = 4, embed = 4, seq = 2, vocab = 6, layers = 4
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.7)
  x = wte[vocab = tokens]
  repeat h in layers { x = tanh(x) }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  y = m(tokens)
  loss = mean[batch, seq](xent[vocab](y, labels))
  optimizer = sgd(lr = 0.1)
  precision = mixed(compute = bf16, params = f32, grads = bf16, reduce = f32)
  steps = 3
}
cluster two { gpus = 2; gpu = "cpu" }
parallel ends on two {
  mesh pipe = 2
  pipeline h on pipe (schedule = "1f1b")
  micro batch = 2
}
