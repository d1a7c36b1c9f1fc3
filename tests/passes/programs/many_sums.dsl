# SPDX-License-Identifier: Apache-2.0
# Micro-batches add up gradients in buckets of a loop in a loop, beside a function in blocks: the plan's certificate
# leaves out iterations of the outer loop whose writes are so many that it has forgotten some by then.
include "std.dsl"
dim batch = 4, embed = 8, wide = 10, seq = 4, outer = 8, inner = 2
fn fading[t](a[..., t], b[..., t], first[...]) -> [..., t] {
  h = first + a[t = 0] * b[t = 0] * 0
  repeat i in size[t] { h = a[t = i] * h + b[t = i]; y[t = i] = h }
  return y
  scan[t = 2] {
    h = a[t = 0] * b[t = 0] * 0
    all = h + 1
    repeat i in size[t] { h = a[t = i] * h + b[t = i]; all = all * a[t = i] }
    return (all, h)
  }
  neutral() { return (1, first) }
  merge(p, h, q, g) { return (p * q, q * h + g) }
  emit(p, h) {
    repeat i in size[t] { h = a[t = i] * h + b[t = i]; y[t = i] = h }
    return y
  }
}
model m(x[batch, seq, embed]) -> [batch, seq, wide] {
  x = begin:linear[embed, wide](x, bias = false)
  repeat h in outer {
    param first[wide] = normal(0.5)
    y = fading[seq](sigmoid(2 * x + 1), 0.5 * sin(x), first)
    repeat k in inner {
      y = 0.6 * y + 0.6 * norm:layernorm[seq](tanh(conv:conv1d[seq, wide](y, 10, k = 2, causal = true)))
    }
    x = 0.6 * x + 0.6 * y
  }
  return end:layernorm[seq](x)
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  loss = mean[batch, seq, wide]((m(x) - 0.3) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 3
}
cluster two { gpus = 2; gpu = "cpu" }
parallel many on two {
  mesh tensor = 2
  shard wide on tensor
  micro batch = 2
}
