# SPDX-License-Identifier: Apache-2.0
# Forms of attention that a user writes, without a line of C: tests/cli/forms.sh.
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, embed = 8, heads = 2, head = 4, layers = 2, reach = 2 * seq - 1
# Scores that do not leave -cap .. cap, a window of positions, a bias by distance, and dropout of the weights: what is
# dropped is missing in the product and not in the sum, as with a softmax made whole.
fn capped[s, t, d](q[..., s, d], k[..., t, d], v[..., t, d], bias[..., s, t], keep[..., s, t], mask = true,
                   cap = 2.0) -> [..., s, d] {
  c = tanh(f32(q @d k) * (0.5 / cap))
  z = where(mask, cap * c + bias, -inf)
  e = exp(z - max(max[t](z), -1e30))
  o = (e / max(sum[t](e), 1e-30) * keep) @t v
  return o
  stream[t] {
    z = where(mask, cap * tanh(f32(q @d k) * (0.5 / cap)) + bias, -inf)
    m = max[t](z)
    e = exp(z - max(m, -1e30))
    return (m, sum[t](e), f32(e * keep @t v))
  }
  merge(m, l, u, n, k, w) {
    most = max(m, n)
    a = exp(max(m, -1e30) - max(most, -1e30))
    b = exp(max(n, -1e30) - max(most, -1e30))
    return (most, l * a + k * b, u * a + w * b)
  }
  finish(m, l, u) { return u / max(l, 1e-30) }
  gradient(dy) {
    p = exp(z - max(m, -1e30)) / max(l, 1e-30)
    dz = p * (f32(dy @d v) * keep - sum[d](f32(dy) * f32(o)))
    ds = dz * (1 - c * c) * 0.5
    return (ds @t k, ds @s q, p * keep @s dy, dz, 0, 0, 0)
  }
}
layer block(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  param far[heads, reach] = normal(0.5)
  bias = far[reach = iota[seq] - iota[kseq] + size[seq] - 1]
  keep = where(uniform[batch, heads, seq, kseq]() < 0.75, 1 / 0.75, 0)
  near = iota[kseq] <= iota[seq] and iota[seq] - iota[kseq] < 6
  return x + wo:linear[(heads, head), embed](capped[seq, kseq, head](q, k, v, bias, keep, near))
}
model net(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers { x = b:block(x) }
  return x
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  y = net(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = adamw(lr = 0.01)
  steps = 3
}
cluster c { gpus = 4; gpu = "cpu" }
parallel r on c { mesh t = 4; shard seq on t; shard kseq on t (ring = true) }
parallel z on c { mesh t = 4; shard seq on t (order = zigzag); shard kseq on t (ring = true, order = zigzag) }
parallel d on c { mesh d = 2, t = 2; shard batch on d; shard seq on t; shard kseq on t (ring = true); zero 2 on d }
parallel b on c { mesh d = 2, t = 2; shard batch on d; shard heads on t; micro batch = 2 }
parallel h on c { mesh d = 2, t = 2; shard heads on d; shard seq on t; shard kseq on t (ring = true); micro batch = 2 }
