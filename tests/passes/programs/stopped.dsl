# SPDX-License-Identifier: Apache-2.0
# A loop that no gradient goes through, beside one that is recomputed.
include "std.dsl"
dim batch = 4, embed = 8, ffn = 8, layers = 3, more = 2
layer mlp(x[batch, embed]) -> [batch, embed] {
  return x |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed]
}
model m(x[batch, embed]) -> [batch, embed] {
  y = x
  repeat g in more { y = y + mlp(y) }
  repeat h in layers { x = x + mlp(x) }
  return x + stop(y)
}
train {
  x[batch, embed] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel again on pair { mesh data = 2; shard batch on data; remat h }
