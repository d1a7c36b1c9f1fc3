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
