# SPDX-License-Identifier: Apache-2.0
# Attention that may look at nothing: a weight beside those of the keys. In 16 bits what comes before the scores of its gradient is
# one kernel, which reads a cast that the function has later than the kernel's first op.
include "std.dsl"
dim batch = 8, embed = 8, seq = 6, kseq = 6, heads = 4, head = 4, layers = 2
fn own[s, t, d, h](q[..., s, h, d], k[..., t, h, d], v[..., t, h, d], sink[h]) -> [..., s, h, d] {
  z = f32(q @d k) * 0.5
  top = max(max[t](z), sink)
  e = exp(z - top)
  o = (e / (sum[t](e) + exp(sink - top))) @t v
  return o
  stream[t] {
    z = f32(q @d k) * 0.5
    m = max[t](z)
    e = exp(z - max(m, -1e30))
    return (m, sum[t](e), f32(e @t v))
  }
  merge(m, l, u, m2, l2, u2) {
    most = max(m, m2)
    a = exp(max(m, -1e30) - max(most, -1e30))
    b = exp(max(m2, -1e30) - max(most, -1e30))
    return (most, l * a + l2 * b, u * a + u2 * b)
  }
  finish(m, l, u) { most = max(max(m, -1e30), sink); a = exp(max(m, -1e30) - most); return u * a / (l * a + exp(sink - most)) }
  gradient(dy) {
    most = max(max(m, -1e30), sink)
    n = l * exp(max(m, -1e30) - most) + exp(sink - most)
    p = exp(z - most) / n
    w = sum[d](f32(dy) * f32(o))
    dz = p * (f32(dy @d v) - w) * 0.5
    return (dz @t k, dz @s q, p @s dy, -w * exp(sink - most) / n)
  }
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers {
    q = wq:linear[embed, (heads, head)](x, std = 0.354, bias = false)
    k = wk:linear[embed, (heads, head)](x, std = 0.354, bias = false)
    v = wv:linear[embed, (heads, head)](x, std = 0.354, bias = false)
    param nothing[heads] = normal(0.5)
    o = own[seq, kseq, head, heads](q, k[seq -> kseq], v[seq -> kseq], nothing)
    x = 0.6 * x + 0.6 * wo:linear[(heads, head), embed](o, std = 0.3)
  }
  return x
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, seq, embed](y ** 2)
  optimizer = sgd(lr = 0.1)
  precision = mixed(compute = bf16, params = f32, grads = f32, reduce = f32)
  seed = 1
  steps = 3
}
cluster one { gpus = 1; gpu = "cpu" }
parallel quarters on one {
  mesh data = 1
  micro batch = 4

}
