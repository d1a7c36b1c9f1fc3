# SPDX-License-Identifier: Apache-2.0
# Functions that go along an axis in blocks: tests/cli/scans.sh.
include "std.dsl"
dim batch = 4, seq = 24, embed = 8, heads = 2, key = 4, value = 3, cell = 2
axis past
# Linear attention (Katharopoulos et al., 2020): what is before a block is a sum of outer products.
fn linear_attention[t, d, e](q[..., t, d], k[..., t, d], v[..., t, e], length = 3) -> [..., t, e] {
  h = k[t = 0] * v[t = 0] * 0
  repeat i in size[t] {
    h = h + k[t = i] * v[t = i]
    y[t = i] = q[t = i] @d h
  }
  return y
  scan[t = length] { return k @t v }
  emit(h) {
    seen = where(iota[t][t -> past] <= iota[t], q @d k[t -> past], 0)
    return q @d h + seen @past v[t -> past]
  }
}
# h' = a h + b, a and b of the input.
fn recurrence[t](a[..., t], b[..., t], first[...]) -> [..., t] {
  h = first + a[t = 0] * 0
  repeat i in size[t] {
    h = a[t = i] * h + b[t = i]
    y[t = i] = h
  }
  return y
  scan[t = 3] {
    h = a[t = 0] * 0
    all = h + 1
    repeat i in size[t] { h = a[t = i] * h + b[t = i]; all = all * a[t = i] }
    return (all, h)
  }
  neutral() { return (1, first) }
  merge(p, h, q, g) { return (p * q, q * h + g) }
  emit(p, h) {
    repeat i in size[t] {
      h = a[t = i] * h + b[t = i]
      y[t = i] = h
    }
    return y
  }
}
fn gate(x[...]) -> [...] {
  e = sigmoid(x)
  return e
  gradient(dy) { return dy * e * (1 - e) }
}
layer block(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, key)](x)
  k = wk:linear[embed, (heads, key)](x)
  v = wv:linear[embed, (heads, value)](x)
  o = linear_attention[seq, key, value](q, k, v)
  param h0[cell] = normal(1.0)
  a = gate(wa:linear[embed, cell](x))
  g = recurrence[seq](a, wb:linear[embed, cell](x), h0)
  return x + wo:linear[(heads, value), embed](o) + wg:linear[cell, embed](g)
}
model net(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in 2 { x = b:block(x) }
  return x
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  y = net(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = adamw(lr = 0.01)
  steps = 3
}
cluster c { gpus = 4; gpu = "cpu" }
parallel s on c { mesh t = 4; shard seq on t }
parallel z on c { mesh t = 4; shard seq on t (order = zigzag) }
parallel d on c { mesh d = 2, t = 2; shard batch on d; shard seq on t; zero 2 on d }
parallel r on c { mesh d = 4; shard batch on d; remat h }
parallel o on c { mesh d = 4, t = 1; shard batch on d; shard seq on t }
parallel a on c { mesh a = 2, b = 2; shard seq on a, b }
parallel w on c { mesh a = 2, b = 2; shard seq on b, a }
parallel m on c { mesh d = 2, t = 2; shard batch on d; shard seq on t; micro batch = 2; zero 3 on d }
