# SPDX-License-Identifier: Apache-2.0
# Loops that gather ahead, and between them one that has such a loop in it: that one's ring turns by itself.
include "std.dsl"
dim batch = 4, embed = 4, layers = 4, outer = 3, inner = 2
model m(x[batch, embed]) -> [batch, embed] {
  repeat h in layers {
    param p[embed] = ones
    x = tanh(x * p)
  }
  repeat g in outer {
    repeat k in inner {
      param q[embed] = ones
      x = tanh(x * q)
    }
  }
  repeat i in layers {
    param r[embed] = ones
    x = tanh(x * r)
  }
  return x
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.01)
  steps = 3
}
cluster two { gpus = 2; gpu = "cpu" }
parallel ahead on two {
  mesh data = 2
  shard batch on data
  zero 3 on data (prefetch = 1)
}
parallel micro on two {
  mesh data = 2
  shard batch on data
  micro batch = 2
  zero 3 on data (prefetch = 1)
}
