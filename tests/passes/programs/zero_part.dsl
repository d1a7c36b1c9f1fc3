# SPDX-License-Identifier: Apache-2.0
# The last two parts of a pipeline add up gradients of a parameter for the first stage, which has it and no part of them;
# they cross in 16 bits.
include "std.dsl"
dim batch = 4, embed = 4, wide = 3, layers = 8
model m(x[batch, embed]) -> [batch, embed] {
  y = l20:linear[wide, embed](l9:linear[embed, wide](x))
  z = y
  repeat h in layers { z = max(z, -0.5) }
  return z + 0.4 * y
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed](log(1 + exp(y - 0.2)))
  optimizer = sgd(lr = 0.1)
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = bf16)
  steps = 3
}
cluster eight { gpus = 8; gpu = "cpu" }
parallel chunks on eight {
  mesh pipe = 4, rest = 2
  shard embed on rest
  pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2)
}
