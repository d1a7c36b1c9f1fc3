# ---- long
# dtc --no-kernels --report
dim batch = 2, seq = 200_000
fn running[t](x[..., t]) -> [..., t] {
  h = x[t = 0] * 0
  repeat i in size[t] {
    h = h + x[t = i]
    y[t = i] = h
  }
  return y
  scan[t] { return sum[t](x) }
  emit(h) { return h + cumsum[t](x) }
}
model m(x[batch, seq]) -> [batch, seq] {
  param w[seq] = ones
  return running[seq](x * w)
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
    before = m - 0.5 * (iota[t] + 1)
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
    before = m - 0.5 * (iota[t] + 1)
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
