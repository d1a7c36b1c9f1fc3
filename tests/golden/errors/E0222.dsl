# ---- sign
# dtc --no-kernels --report
dim batch = 2, embed = 4
fn scaled(x[..., embed], w[embed]) -> [..., embed] {
  return x * w
  gradient(dy) { return (dy * w, -dy * x) }
}
model m(x[batch, embed]) -> [batch, embed] {
  param w[embed] = ones
  return scaled(x, w)
}
train { x[batch, embed] = synthetic(-1, 1); loss = sum[batch, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- part
# dtc --no-kernels --report
dim batch = 2, seq = 16
fn lse[t](x[..., t]) -> [...] {
  m = max[t](x)
  return m + log(sum[t](exp(x - m)))
  stream[t] {
    m = max[t](x)
    return (m, 2 * sum[t](exp(x - m)))
  }
  merge(m, l, n, k) {
    most = max(m, n)
    return (most, l * exp(m - most) + k * exp(n - most))
  }
  finish(m, l) { return m + log(l) }
  gradient(dy) { return dy * exp(x - m) / l }
}
model net(x[batch, seq]) -> [batch] {
  param w[seq] = ones
  return lse[seq](x * w)
}
train { x[batch, seq] = synthetic(0, 1); loss = sum[batch](net(x)); optimizer = sgd(lr = 0.1); steps = 1 }
