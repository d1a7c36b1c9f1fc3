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
