# SPDX-License-Identifier: Apache-2.0
# A log-sum-exp of scores over keys that says how it streams, with queries and without: tests/cli/forms.sh.
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, embed = 8, heads = 2, head = 4, vocab = 16
fn logs[s, t, d](q[..., s, d], k[..., t, d], mask = true) -> [..., s] {
  z = where(mask, f32(q @d k), -inf)
  m = max(max[t](z), -1e30)
  return m + log(max(sum[t](exp(z - m)), 1e-30))
  stream[t] { z = where(mask, f32(q @d k), -inf); m = max[t](z); return (m, sum[t](exp(z - max(m, -1e30)))) }
  merge(m, l, n, j) {
    o = max(m, n)
    return (o, l * exp(max(m, -1e30) - max(o, -1e30)) + j * exp(max(n, -1e30) - max(o, -1e30)))
  }
  finish(m, l) { return max(m, -1e30) + log(max(l, 1e-30)) }
  gradient(dy) { p = exp(z - max(m, -1e30)) / max(l, 1e-30) * dy; return (p @t k, p @s q, 0) }
}
fn whole[c](z[..., c]) -> [...] {
  m = max(max[c](z), -1e30)
  return m + log(max(sum[c](exp(z - m)), 1e-30))
  stream[c] { m = max[c](z); return (m, sum[c](exp(z - max(m, -1e30)))) }
  merge(m, l, n, j) {
    o = max(m, n)
    return (o, l * exp(max(m, -1e30) - max(o, -1e30)) + j * exp(max(n, -1e30) - max(o, -1e30)))
  }
  finish(m, l) { return max(m, -1e30) + log(max(l, 1e-30)) }
  gradient(dy) { return exp(z - max(m, -1e30)) / max(l, 1e-30) * dy }
}
model net(x[batch, seq, embed]) -> [batch, seq, heads], [batch, seq] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  return (logs[seq, kseq, head](q, k, iota[kseq] <= iota[seq]), whole[vocab](wo:linear[embed, vocab](x)))
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  y, z = net(x)
  loss = mean[batch, seq, heads](y * y) + mean[batch, seq](z)
  optimizer = adamw(lr = 0.01)
  steps = 3
}
cluster c { gpus = 4; gpu = "cpu" }
parallel r on c { mesh t = 4; shard seq on t; shard kseq on t (ring = true) }
parallel z on c { mesh t = 4; shard seq on t (order = zigzag); shard kseq on t (ring = true, order = zigzag) }
parallel d on c { mesh d = 2, t = 2; shard batch on d; shard seq on t; shard kseq on t (ring = true) }
parallel v on c { mesh d = 2, t = 2; shard batch on d; shard vocab on t }
