# SPDX-License-Identifier: Apache-2.0
# Loops in a loop share a register: the one over `t` is longer than the one whose gradients a layer keeps.
include "std.dsl"
dim batch = 2, embed = 9, seq = 4, layers = 6, few = 3
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers {
    r[batch, seq] = 0.3
    repeat t in embed {
      r = tanh(0.6 * r + x[embed = t])
      y[embed = t] = r
    }
    x = y
    repeat k in few {
      param p[seq] = ones
      x = x * p
    }
  }
  return x
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  loss = mean[batch, seq, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel zero on two {
  mesh data = 2
  shard batch on data
  zero 2 on data (bucket = 256B)
}
parallel data on two {
  mesh data = 2
  shard batch on data
}
