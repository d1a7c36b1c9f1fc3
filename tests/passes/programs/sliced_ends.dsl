# SPDX-License-Identifier: Apache-2.0
# Both loops of a pipeline read an element of a stack, whose gradient comes from several stages: slices of it are taken
# of the sum of all, as the serial program does.
include "std.dsl"
dim batch = 4, embed = 8, vocab = 16, layers = 4, two = 2
model m(i32 tokens[batch]) -> [batch, vocab] {
  param wte[vocab, embed], pos[embed] = normal(0.5)
  v = wte[vocab = tokens]
  x = (stack[two](v, v) - 0.5 * pos)[two = 0]
  c = x
  repeat h in layers { c = 0.6 * c + tanh(c) }
  d = c + 0.4 * x
  repeat k in layers { d = 0.6 * d + tanh(d) }
  return d @embed wte
}
train {
  i32 tokens[batch] = synthetic(0, vocab)
  i32 labels[batch] = synthetic(0, vocab)
  loss = mean[batch](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 0.1)
  steps = 2
}
cluster here { nodes = 1; gpus = 4; gpu = "cpu" }
parallel two on here { mesh pipe = 4; pipeline h, k on pipe (schedule = "interleaved_1f1b", chunks = 2); micro batch = 2 }
