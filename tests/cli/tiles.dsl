# SPDX-License-Identifier: Apache-2.0
# Attention of several kinds in tiles and rings, forwards and backwards, as a user writes it: tests/cli/tiles.sh.
include "std.dsl"
dim batch = 2, seq = 16, kseq = seq, embed = 8, heads = 2, head = 4, buckets = 8, farthest = 16
# A bias that each query and key has, one that each key has, temperatures; and a gradient for all of them.
fn biased[s, t, d](q[..., s, d], k[..., t, d], v[..., t, d], bias[..., s, t], key[..., t], scale[...],
                   mask = true) -> [..., s, d] {
  z = where(mask, f32(q @d k) * scale + bias + key, -inf)
  e = exp(z - max(max[t](z), -1e30))
  o = (e / max(sum[t](e), 1e-30)) @t v
  return o
  stream[t] {
    z = where(mask, f32(q @d k) * scale + bias + key, -inf)
    m = max[t](z)
    e = exp(z - max(m, -1e30))
    return (m, sum[t](e), f32(e @t v))
  }
  merge(m, l, u, n, k, w) {
    most = max(m, n)
    a = exp(max(m, -1e30) - max(most, -1e30))
    b = exp(max(n, -1e30) - max(most, -1e30))
    return (most, l * a + k * b, u * a + w * b)
  }
  finish(m, l, u) { return u / max(l, 1e-30) }
  gradient(dy) {
    p = exp(z - max(m, -1e30)) / max(l, 1e-30)
    dz = p * (f32(dy @d v) - sum[d](f32(dy) * f32(o)))
    ds = dz * scale
    return (ds @t k, ds @s q, p @s dy, dz, dz, dz * f32(q @d k), 0)
  }
}
# Scores that do not leave -cap .. cap.
fn capped[s, t, d](q[..., s, d], k[..., t, d], v[..., t, d], bias[..., s, t], mask = true, cap = 2.0) -> [..., s, d] {
  c = tanh(f32(q @d k) * (0.5 / cap))
  z = where(mask, cap * c + bias, -inf)
  e = exp(z - max(max[t](z), -1e30))
  o = (e / max(sum[t](e), 1e-30)) @t v
  return o
  stream[t] {
    z = where(mask, cap * tanh(f32(q @d k) * (0.5 / cap)) + bias, -inf)
    m = max[t](z)
    e = exp(z - max(m, -1e30))
    return (m, sum[t](e), f32(e @t v))
  }
  merge(m, l, u, n, k, w) {
    most = max(m, n)
    a = exp(max(m, -1e30) - max(most, -1e30))
    b = exp(max(n, -1e30) - max(most, -1e30))
    return (most, l * a + k * b, u * a + w * b)
  }
  finish(m, l, u) { return u / max(l, 1e-30) }
  gradient(dy) {
    p = exp(z - max(m, -1e30)) / max(l, 1e-30)
    dz = p * (f32(dy @d v) - sum[d](f32(dy) * f32(o)))
    ds = dz * (1 - c * c) * 0.5
    return (ds @t k, ds @s q, p @s dy, dz, 0, 0)
  }
}
# Sigmoid attention with a learned bias: nothing to normalise, parts add up.
fn gated[s, t, d](q[..., s, d], k[..., t, d], v[..., t, d], bias[..., s, t], mask = true) -> [..., s, d] {
  p = where(mask, sigmoid(f32(q @d k) * 0.5 + bias), 0)
  return p @t v
  stream[t] { return f32(where(mask, sigmoid(f32(q @d k) * 0.5 + bias), 0) @t v) }
  finish(u) { return u }
  gradient(dy) {
    dz = p * (1 - p) * f32(dy @d v)
    return (dz * 0.5 @t k, dz * 0.5 @s q, p @s dy, dz, 0)
  }
}
# Attention with a sink per head: a score without a value, that every softmax has beside its own.
fn sunk[s, t, d](q[..., s, d], k[..., t, d], v[..., t, d], sink[...], bias[..., s, t], mask = true) -> [..., s, d] {
  z = where(mask, f32(q @d k) * 0.5 + bias, -inf)
  m = max(max[t](z), sink)
  e = exp(z - m)
  o = (e / (sum[t](e) + exp(sink - m))) @t v
  return o
  stream[t] {
    z = where(mask, f32(q @d k) * 0.5 + bias, -inf)
    m = max[t](z)
    e = exp(z - max(m, -1e30))
    return (m, sum[t](e), f32(e @t v))
  }
  merge(m, l, u, n, k, w) {
    most = max(m, n)
    a = exp(max(m, -1e30) - max(most, -1e30))
    b = exp(max(n, -1e30) - max(most, -1e30))
    return (most, l * a + k * b, u * a + w * b)
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
    dz = p * (f32(dy @d v) - r)
    ds = dz * 0.5
    return (ds @t k, ds @s q, p @s dy, -r * exp(sink - most) / n, dz, 0)
  }
}
# The bucket of a distance (Raffel et al., T5, 2020): half of them for one each, others for longer and longer stretches.
fn bucket[s, t]() -> i32 [s, t] {
  far = max(iota[s] - iota[t], 0)
  exact = size[buckets] // 2
  long = exact + i32(log(max(far, 1) / exact) / log(size[farthest] / exact) * exact)
  return where(far < exact, far, min(long, size[buckets] - 1))
}
layer block(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  param table[heads, buckets] = normal(0.5)
  bias = table[buckets = bucket[seq, kseq]()]
  before = iota[kseq] <= iota[seq]
  near = before and iota[seq] - iota[kseq] < 5
  param key[heads, kseq] = normal(0.5)
  param warm[heads] = ones
  param scale[] = ones
  param free[heads, seq, kseq] = normal(0.5)
  param sink[heads] = normal(0.5)
  a = biased[seq, kseq, head](q, k, v, bias, key, warm, before)
  b = attend[seq, kseq, head](q, k, v, scale, free)
  c = capped[seq, kseq, head](q, k, v, bias, near)
  d = gated[seq, kseq, head](q, k, v, bias, near)
  e = sunk[seq, kseq, head](q, k, v, sink, bias, before)
  return x + wo:linear[(heads, head), embed](a + b + c + d + e)
}
model net(x[batch, seq, embed]) -> [batch, seq, embed] { return b:block(x) }
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  y = net(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = adamw(lr = 0.01)
  steps = 3
}
cluster c { gpus = 4; gpu = "cpu" }
cluster two { gpus = 2; gpu = "cpu" }
parallel r on c { mesh t = 4; shard seq on t; shard kseq on t (ring = true) }
parallel h on two { mesh t = 2; shard seq on t; shard kseq on t (ring = true) }
parallel z on c { mesh t = 4; shard seq on t (order = zigzag); shard kseq on t (ring = true, order = zigzag) }
