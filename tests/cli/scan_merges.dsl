# SPDX-License-Identifier: Apache-2.0
# Scans whose merges are products of matrices, of numbers and vectors, the larger of two: tests/cli/scans.sh.
include "std.dsl"
dim batch = 2, seq = 24, cell = 3, wide = 2, embed = 4, mid = cell
axis past
# h' = A h + b, A a matrix of the input
fn rec[t](m[..., t, cell, mid], b[..., t, cell], first[...]) -> [..., t, cell] {
  h = first + b[t = 0] * 0
  repeat i in size[t] { h = m[t = i] @mid h[cell -> mid] + b[t = i]; y[t = i] = h }
  return y
  scan[t = 3] {
    h = b[t = 0] * 0
    all = f32(iota[cell] == iota[mid]) + m[t = 0] * 0
    repeat i in size[t] { h = m[t = i] @mid h[cell -> mid] + b[t = i]
      all = m[t = i][mid -> past] @past all[cell -> past] }
    return (all, h)
  }
  neutral() { return (0, first) }
  merge(p, h, q, g) { return (q[mid -> past] @past p[cell -> past], q @mid h[cell -> mid] + g) }
  emit(p, h) { repeat i in size[t] { h = m[t = i] @mid h[cell -> mid] + b[t = i]; y[t = i] = h }
    return y }
}
fn decay[t](a[..., t], b[..., t, wide], start[wide]) -> [..., t, wide] {
  h = start + a[t = 0] * b[t = 0] * 0
  repeat i in size[t] { h = a[t = i] * h + b[t = i]; y[t = i] = h }
  return y
  scan[t = 3] {
    h = b[t = 0] * 0
    all = a[t = 0] * 0 + 1
    repeat i in size[t] { h = a[t = i] * h + b[t = i]; all = all * a[t = i] }
    return (all, h)
  }
  neutral() { return (1, start) }
  merge(p, h, q, g) { return (p * q, q * h + g) }
  emit(p, h) { repeat i in size[t] { h = a[t = i] * h + b[t = i]; y[t = i] = h }
    return y }
}
fn most[t](x[..., t]) -> [..., t] {
  h = x[t = 0]
  repeat i in size[t] { h = max(h, x[t = i]); y[t = i] = h }
  return y
  scan[t = 3] { return max[t](x) }
  neutral() { return -inf }
  merge(h, g) { return max(h, g) }
  emit(h) { repeat i in size[t] { h = max(h, x[t = i]); y[t = i] = h }
    return y }
}
model net(x[batch, seq, embed]) -> [batch, seq, embed] {
  param first[cell], start[wide] = normal(1.0)
  m = wm:linear[embed, (cell, mid)](x) * 0.3
  a = sigmoid(wa:linear[embed, wide](x)[wide = 0])
  u = rec[seq](m, wb:linear[embed, cell](x), first)
  v = decay[seq](a, wc:linear[embed, wide](x), start)
  z = most[seq](x)
  return z + wo:linear[cell, embed](u) + wp:linear[wide, embed](v)
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  y = net(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 3
}
cluster c { gpus = 4; gpu = "cpu" }
parallel s on c { mesh t = 4; shard seq on t }
