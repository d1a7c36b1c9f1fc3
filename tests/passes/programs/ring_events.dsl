# SPDX-License-Identifier: Apache-2.0
# What micro-batches leave to each other in a ring is on its way when the next one starts what comes before the loop.
include "std.dsl"
dim batch = 4, seq = 6, embed = 4, layers = 4, vocab = 10
axis win
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed], w[win = 2] = normal(0.7)
  e = wte[vocab = tokens]
  x = window[seq, win](e, 2, pad = (0, 1)) @win w + 0.4 * e
  repeat h in layers {
    param p[embed] = ones
    x = tanh(x * p)
  }
  return x @embed wte
}
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  loss = mean[batch, seq, vocab](m(tokens) ** 2)
  optimizer = adamw(lr = 0.01, decay = 0.1, decay_if = rank > 1)
  steps = 3
}
cluster two { gpus = 2; gpu = "cpu" }
parallel ahead on two {
  mesh data = 2
  micro batch = 2
  zero 3 on data (prefetch = 1)
}
