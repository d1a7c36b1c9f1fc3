# ---- no_product
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 512, kseq = seq, heads = 2, head = 16
fn near[s, t, d](q[..., s, d], k[..., t, d]) -> [..., s] {
  return sum[t](exp(-sum[d]((q - k) ** 2)))
  stream[t] { return sum[t](exp(-sum[d]((q - k) ** 2))) }
}
model net(x[batch, seq, heads, head]) -> [batch, seq, heads] {
  param w[head] = ones
  return near[seq, kseq, head](x * w, x[seq -> kseq])
}
train {
  x[batch, seq, heads, head] = synthetic(-1, 1)
  loss = mean[batch, seq, heads](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
# ---- ring
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 512, kseq = seq, heads = 2, head = 16
fn near[s, t, d](q[..., s, d], k[..., t, d]) -> [..., s] {
  return sum[t](exp(-sum[d]((q - k) ** 2)))
  stream[t] { return sum[t](exp(-sum[d]((q - k) ** 2))) }
}
model net(x[batch, seq, heads, head]) -> [batch, seq, heads] {
  param w[head] = ones
  return near[seq, kseq, head](x * w, x[seq -> kseq])
}
train {
  x[batch, seq, heads, head] = synthetic(-1, 1)
  loss = mean[batch, seq, heads](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
# ---- several
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 512, kseq = seq, heads = 2, head = 16
fn mixed[s, t, h, d](q[..., s, h, d], k[..., t, h, d]) -> [..., s] {
  return sum[t](exp(q @(h, d) k))
  stream[t] { return sum[t](exp(q @(h, d) k)) }
}
model net(x[batch, seq, heads, head]) -> [batch, seq] {
  param w[head] = ones
  return mixed[seq, kseq, heads, head](x * w, x[seq -> kseq])
}
train {
  x[batch, seq, heads, head] = synthetic(-1, 1)
  loss = mean[batch, seq](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
