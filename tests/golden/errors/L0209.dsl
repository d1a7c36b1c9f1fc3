# ---- blocks
# dtc --no-kernels --report
include "std.dsl"
dim batch = 2, seq = 16
fn lse[t](x[..., t]) -> [...] {
  m = max[t](x)
  return m + log(sum[t](exp(x - m)))
  stream[t] {
    m = max[t](x)
    return (m, sum[t](exp(x - m)))
  }
  merge(m, l, n, k) {
    most = max(m, n)
    return (most, l * exp(m - most) + k)
  }
  finish(m, l) { return m + log(l) }
}
model net(x[batch, seq]) -> [batch] {
  param w[seq] = ones
  return lse[seq](x * w)
}
train { x[batch, seq] = synthetic(0, 1); loss = sum[batch](net(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- order
# dtc --no-kernels --report
include "std.dsl"
dim batch = 2, seq = 16
fn first[t](x[..., t]) -> [...] {
  return x[t = 0]
  stream[t] { return x[t = 0] }
  merge(x, y) { return x }
}
model net(x[batch, seq]) -> [batch] {
  param w[seq] = ones
  return first[seq](x * w)
}
train { x[batch, seq] = synthetic(0, 1); loss = sum[batch](net(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- adjoining
# dtc --no-kernels --report
include "std.dsl"
dim batch = 2, seq = 16
fn behind[t](x[..., t]) -> [...] {
  return x[t = 0]
  scan[t] { return x[t = 0] }
  merge(x, y) { return x - y }
}
model net(x[batch, seq]) -> [batch] {
  param w[seq] = ones
  return behind[seq](x * w)
}
train { x[batch, seq] = synthetic(0, 1); loss = sum[batch](net(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- beginning
# dtc --no-kernels --report
dim batch = 2, seq = 200_000
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
