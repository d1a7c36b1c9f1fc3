# SPDX-License-Identifier: Apache-2.0
# A table is read at both ends of a pipeline, beside another one that has the gradient of one end by itself: in a wider
# dtype than its two parts are added up in.
include "std.dsl"
dim batch = 4, embed = 4, seq = 2, vocab = 6, layers = 2
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.7)
  param wpe[vocab, embed] = normal(0.5)
  x = wte[vocab = tokens] + wpe[vocab = tokens]
  repeat h in layers { x = max(x, -0.5) }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  y = m(tokens)
  loss = mean[batch, seq](xent[vocab](y, labels))
  optimizer = sgd(lr = 0.1)
  precision = mixed(compute = bf16, params = f32, grads = f32, reduce = f32)
  steps = 3
}
cluster two { gpus = 2; gpu = "cpu" }
parallel ends on two {
  mesh pipe = 2
  pipeline h on pipe (schedule = "1f1b")
  micro batch = 2
}
