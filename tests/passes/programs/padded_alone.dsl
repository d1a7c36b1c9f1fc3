# SPDX-License-Identifier: Apache-2.0
# Padded parameters in a pipeline over an axis of one rank: both chunks are one stage's, and the second chunk's buckets
# are iterations from 1 on, with a mask of the padding that is the same in all.
include "std.dsl"
dim batch = 8, embed = 8, vocab = 16, kembed = 8, layers = 2
model m(x[batch, embed]) -> [batch, vocab] {
  repeat h in layers {
    x = 0.6 * x + 0.6 * mid:linear[embed, kembed](x, bias = false)[kembed -> embed]
  }
  return end:linear[embed, vocab](x, bias = false)
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, vocab](m(x) ** 2)
  optimizer = lion(lr = 0.01, clip = 1.0)
  steps = 3
}
cluster eight { gpus = 8; gpu = "cpu" }
parallel alone on eight {
  mesh context = 8, tensor = 1, data = 1
  shard embed on context (pad = 16)
  pipeline h on data (schedule = "zb_v", chunks = 2)
  zero 1 on tensor (bucket = 256B)
}
