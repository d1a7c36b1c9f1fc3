# SPDX-License-Identifier: Apache-2.0
# Functions that say how they stream over keys: tests/cli/streams.sh.
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, embed = 8, heads = 2, head = 4, layers = 2
# Attention with a sink per head (Xiao et al., 2023): a score without a value, that every softmax has beside its own.
fn sunk[s, t, d, h](q[..., s, h, d], k[..., t, h, d], v[..., t, h, d], sink[h], mask = true) -> [..., s, h, d] {
  z = where(mask, f32(q @d k) * 0.5, -inf)
  m = max(max[t](z), sink)
  e = exp(z - m)
  l = sum[t](e) + exp(sink - m)
  o = (e / l) @t v
  return o
  stream[t] {
    z = where(mask, f32(q @d k) * 0.5, -inf)
    m = max[t](z)
    e = exp(z - max(m, -1e30))
    return (m, sum[t](e), f32(e @t v))
  }
  merge(m, l, u, m2, l2, u2) {
    most = max(max(m, m2), -1e30)
    a = exp(max(m, -1e30) - most)
    b = exp(max(m2, -1e30) - most)
    return (max(m, m2), l * a + l2 * b, u * a + u2 * b)
  }
  finish(m, l, u) {
    most = max(max(m, -1e30), sink)
    a = exp(max(m, -1e30) - most)
    return u * a / (l * a + exp(sink - most))
  }
  gradient(dy) {
    most = max(max(m, -1e30), sink)
    n = l * exp(max(m, -1e30) - most) + exp(sink - most)
    p = exp(z - most) / n
    r = sum[d](f32(dy) * f32(o))
    dz = p * (f32(dy @d v) - r) * 0.5
    return (dz @t k, dz @s q, p @s dy, -r * exp(sink - most) / n, 0)
  }
}
# Sigmoid attention: nothing to normalise, parts add up.
fn gated[s, t, d](q[..., s, d], k[..., t, d], v[..., t, d], mask = true) -> [..., s, d] {
  p = where(mask, 1 / (1 + exp(-f32(q @d k) * 0.5)), 0)
  return p @t v
  stream[t] { return f32(where(mask, 1 / (1 + exp(-f32(q @d k) * 0.5)), 0) @t v) }
  finish(u) { return u }
  gradient(dy) {
    dz = p * (1 - p) * f32(dy @d v) * 0.5
    return (dz @t k, dz @s q, p @s dy, 0)
  }
}
layer block(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  param sink[heads] = normal(0.5)
  o = sunk[seq, kseq, head, heads](q, k, v, sink, mask = iota[kseq] <= iota[seq])
  g = gated[seq, kseq, head](q, k, v, iota[seq] - iota[kseq] < 5)
  return x + wo:linear[(heads, head), embed](o + g)
}
model net(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers { x = b:block(x) }
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
parallel r on c { mesh t = 4; shard seq on t; shard kseq on t (ring = true) }
parallel z on c { mesh t = 4; shard seq on t (order = zigzag); shard kseq on t (ring = true, order = zigzag) }
parallel d on c { mesh d = 2, t = 2; shard batch on d; shard seq on t; shard kseq on t (ring = true); zero 2 on d }
parallel h on c { mesh d = 2, t = 2; shard heads on d; shard seq on t; shard kseq on t (ring = true); micro batch = 2 }
