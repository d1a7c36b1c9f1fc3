# SPDX-License-Identifier: Apache-2.0
# Stages that run one program, with results that are written over values nobody reads any more: also where `--verify` writes it
# out for each of them.
include "std.dsl"
dim batch = 4, embed = 4, layers = 4
model m(x[batch, embed]) -> [batch, embed] {
  param first[embed] = ones
  y = x * first
  repeat h in layers {
    param gain[embed] = ones
    y = tanh(y * gain)
  }
  return y
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed](y * y)
  optimizer = adamw(lr = 0.01, clip = 0.5)
  steps = 2
}
cluster c { gpus = 4; gpu = "cpu" }
parallel pipe on c { mesh p = 4; pipeline h on p; micro batch = 4 }
