# ---- whole
# dtc --no-kernels --report --parallel two
include "std.dsl"
dim batch = 2, seq = 16, kseq = seq, heads = 2, head = 4
fn logs[s, t, d](q[..., s, d], k[..., t, d]) -> [..., s] {
  z = f32(q @d k)
  m = max(max[t](z), -1e30)
  return m + log(max(sum[t](exp(z - m)), 1e-30))
  stream[t] {
    z = f32(q @d k)
    m = max[t](z)
    return (m, sum[t](exp(z - max(m, -1e30))))
  }
  merge(m, l, n, j) {
    o = max(m, n)
    return (o, l * exp(max(m, -1e30) - max(o, -1e30)) + j * exp(max(n, -1e30) - max(o, -1e30)))
  }
  finish(m, l) { return max(m, -1e30) + max(l, 1e-30) }
}
model net(x[batch, seq, heads, head]) -> [batch, seq, heads] {
  param w[head] = ones
  return logs[seq, kseq, head](x * w, x[seq -> kseq])
}
train {
  x[batch, seq, heads, head] = synthetic(0, 1)
  loss = mean[batch, seq, heads](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
# ---- bound
# dtc --no-kernels --report --parallel two
include "std.dsl"
dim batch = 2, seq = 16, kseq = seq, heads = 2, head = 4
fn logs[s, t, d](q[..., s, d], k[..., t, d]) -> [..., s] {
  z = f32(q @d k)
  m = max[t](z)
  return m + log(max(sum[t](exp(z - m)), 1e-30))
  stream[t] {
    z = f32(q @d k)
    m = max[t](z)
    return (m, sum[t](exp(z - max(m, -1e30))))
  }
  merge(m, l, n, j) {
    o = max(m, n)
    return (o, l * exp(max(m, -1e30) - max(o, -1e30)) + j * exp(max(n, -1e30) - max(o, -1e30)))
  }
  finish(m, l) { return max(m, -1e30) + log(max(l, 1e-30)) }
}
model net(x[batch, seq, heads, head]) -> [batch, seq, heads] {
  param w[head] = ones
  return logs[seq, kseq, head](x * w, x[seq -> kseq])
}
train {
  x[batch, seq, heads, head] = synthetic(0, 1)
  loss = mean[batch, seq, heads](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
# ---- merge
# dtc --no-kernels --report --parallel two
include "std.dsl"
dim batch = 2, seq = 16, kseq = seq, heads = 2, head = 4
fn logs[s, t, d](q[..., s, d], k[..., t, d]) -> [..., s] {
  z = f32(q @d k)
  m = max(max[t](z), -1e30)
  return m + log(max(sum[t](exp(z - m)), 1e-30))
  stream[t] {
    z = f32(q @d k)
    m = max[t](z)
    return (m, sum[t](exp(z - max(m, -1e30))))
  }
  merge(m, l, n, j) {
    o = max(m, n)
    return (o, l * exp(max(m, -1e30) - max(o, -1e30)) + j)
  }
  finish(m, l) { return max(m, -1e30) + log(max(l, 1e-30)) }
}
model net(x[batch, seq, heads, head]) -> [batch, seq, heads] {
  param w[head] = ones
  return logs[seq, kseq, head](x * w, x[seq -> kseq])
}
train {
  x[batch, seq, heads, head] = synthetic(0, 1)
  loss = mean[batch, seq, heads](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
# ---- sum
# dtc --no-kernels --report --parallel two
include "std.dsl"
dim batch = 2, seq = 16, kseq = seq, heads = 2, head = 4
fn logs[s, t, d](q[..., s, d], k[..., t, d]) -> [..., s] {
  return max[t](f32(q @d k))
  stream[t] { return max[t](f32(q @d k)) }
}
model net(x[batch, seq, heads, head]) -> [batch, seq, heads] {
  param w[head] = ones
  return logs[seq, kseq, head](x * w, x[seq -> kseq])
}
train {
  x[batch, seq, heads, head] = synthetic(0, 1)
  loss = mean[batch, seq, heads](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
# ---- blocks
# dtc --no-kernels --report
dim batch = 2, seq = 16
fn most[t](x[..., t]) -> [..., t] {
  h = x[t = 0]
  repeat i in size[t] { h = max(h, x[t = i]); y[t = i] = h }
  return y
  scan[t] { return max[t](x) }
  neutral() { return 0 }
  merge(h, g) { return max(h, g) }
  emit(h) { repeat i in size[t] { h = max(h, x[t = i]); y[t = i] = h }
    return y }
}
model m(x[batch, seq]) -> [batch, seq] {
  param w[seq] = ones
  return most[seq](x * w)
}
train { x[batch, seq] = synthetic(0, 1); loss = sum[batch, seq](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- larger
# dtc --no-kernels --report
dim batch = 2, seq = 12
axis past
fn bounded[t](x[..., t], k[..., t]) -> [..., t] {
  s, m = x[t = 0] * 0, k[t = 0] * 0 - 1e30
  repeat i in size[t] {
    p = stop(max(m - 0.5, k[t = i]))
    s = exp(m - 0.5 - p) * s + exp(k[t = i] - p) * x[t = i]
    m = p
    y[t = i] = s / max(abs(s), exp(-m))              # x / max(abs(x), 1) of a sum whose scale is exp(m)
  }
  return y
  scan[t = 4] {
    z = k - 0.5 * (size[t] - 1 - iota[t])
    m = stop(max[t](z))
    return k[t = 0] * 0 - 0.5 * size[t], sum[t](x * exp(z - m)), m
  }
  neutral() { return 0, 0, -1e30 }
  merge(lost, s, m, more, r, n) {
    p = stop(max(m + more, n))
    return lost + more, s * exp(m + more - p) + r * exp(n - p), p
  }
  emit(lost, s, m) {
    z = where(iota[t][t -> past] <= iota[t], k[t -> past] - 0.5 * (iota[t] - iota[t][t -> past]), -1e30)
    before = m - 0.5 * iota[t]
    p = stop(max(max[past](z), before))
    v = sum[past](x[t -> past] * exp(z - p)) + s * exp(before - p)
    return v / max(abs(v), exp(-p))
  }
}
model net(x[batch, seq]) -> [batch, seq] {
  param w[seq] = ones
  return bounded[seq](x, x * w)
}
train { x[batch, seq] = synthetic(0, 1); loss = sum[batch, seq](net(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- larger_of_many
# dtc --no-kernels --report
dim batch = 4096, seq = 1024
axis past
fn bounded[t](x[..., t], k[..., t]) -> [..., t] {
  s, m = x[t = 0] * 0, k[t = 0] * 0 - 1e30
  repeat i in size[t] {
    p = stop(max(m - 0.5, k[t = i]))
    s = exp(m - 0.5 - p) * s + exp(k[t = i] - p) * x[t = i]
    m = p
    y[t = i] = s / max(abs(s), exp(-m))              # x / max(abs(x), 1) of a sum whose scale is exp(m)
  }
  return y
  scan[t = 4] {
    z = k - 0.5 * (size[t] - 1 - iota[t])
    m = stop(max[t](z))
    return k[t = 0] * 0 - 0.5 * size[t], sum[t](x * exp(z - m)), m
  }
  neutral() { return 0, 0, -1e30 }
  merge(lost, s, m, more, r, n) {
    p = stop(max(m + more, n))
    return lost + more, s * exp(m + more - p) + r * exp(n - p), p
  }
  emit(lost, s, m) {
    z = where(iota[t][t -> past] <= iota[t], k[t -> past] - 0.5 * (iota[t] - iota[t][t -> past]), -1e30)
    before = m - 0.5 * iota[t]
    p = stop(max(max[past](z), before))
    v = sum[past](x[t -> past] * exp(z - p)) + s * exp(before - p)
    return v / max(abs(v), exp(-p))
  }
}
model net(x[batch, seq]) -> [batch, seq] {
  param w[seq] = ones
  return bounded[seq](x, x * w)
}
train { x[batch, seq] = synthetic(0, 1); loss = sum[batch, seq](net(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- larger_long
# dtc --no-kernels --report
dim batch = 2
axis past, rows, seq
fn bounded[t](x[..., t], k[..., t]) -> [..., t] {
  s, m = x[t = 0] * 0, k[t = 0] * 0 - 1e30
  repeat i in size[t] {
    p = stop(max(m - 0.5, k[t = i]))
    s = exp(m - 0.5 - p) * s + exp(k[t = i] - p) * x[t = i]
    m = p
    y[t = i] = s / max(abs(s), exp(-m))              # x / max(abs(x), 1) of a sum whose scale is exp(m)
  }
  return y
  scan[t = 4] {
    z = k - 0.5 * (size[t] - 1 - iota[t])
    m = stop(max[t](z))
    return k[t = 0] * 0 - 0.5 * size[t], sum[t](x * exp(z - m)), m
  }
  neutral() { return 0, 0, -1e30 }
  merge(lost, s, m, more, r, n) {
    p = stop(max(m + more, n))
    return lost + more, s * exp(m + more - p) + r * exp(n - p), p
  }
  emit(lost, s, m) {
    z = where(iota[t][t -> past] <= iota[t], k[t -> past] - 0.5 * (iota[t] - iota[t][t -> past]), -1e30)
    before = m - 0.5 * (iota[t] + 1)
    p = stop(max(max[past](z), before))
    v = sum[past](x[t -> past] * exp(z - p)) + s * exp(before - p)
    return v / max(abs(v), exp(-p))
  }
}
model net(x[batch, rows = 4096, seq = 1024]) -> [batch, rows, seq] {
  param w[seq = 1024] = ones
  return bounded[seq](x, x * w)
}
train { x[batch, rows = 4096, seq = 1024] = synthetic(0, 1); loss = sum[batch, rows, seq](net(x)); optimizer = sgd(lr = 0.1); steps = 1 }
