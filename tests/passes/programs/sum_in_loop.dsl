# SPDX-License-Identifier: Apache-2.0
# A loop takes apart what is a sum over ranks, along an axis that elsewhere is made of one that is split.
include "std.dsl"
dim batch = 4, embed = 4, seq = 8, layers = 2, two = 2, outer = 2, inner = 4
model m(x[batch, seq, embed]) -> f32[] {
  repeat h in layers {
    r[batch, embed] = 0.3
    repeat t in seq {
      param p[embed, two] = normal(0.5)
      r = (r * p)[two = 0]
      y[seq = size[seq] - 1 - t] = r
    }
    x = 0.6 * x + 0.6 * y
  }
  x = cumsum[inner](x[seq -> (outer, inner)]) / (1 + iota[inner])
  x = x[(inner, outer) -> seq]
  return mean[batch, seq, embed](x)
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  loss = m(x)
  optimizer = sgd(lr = 0.01)
  steps = 3
}
cluster four { gpus = 4; gpu = "cpu" }
parallel one on four {
  mesh context = 1, rest = 4
  shard inner on context
  shard embed on rest
}
