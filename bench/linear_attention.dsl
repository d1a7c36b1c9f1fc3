# SPDX-License-Identifier: Apache-2.0
# Linear attention (Katharopoulos et al., 2020) in blocks of 64 positions: bench/linear_vs_pytorch.sh.
include "std.dsl"
dim batch = 4, seq = 1024, embed = 64, layers = 2, heads = 2, key = 32, value = 32
axis past
fn linear_attention[t, d, e](q[..., t, d], k[..., t, d], v[..., t, e]) -> [..., t, e] {
  h = k[t = 0] * v[t = 0] * 0
  repeat i in size[t] {
    h = h + k[t = i] * v[t = i]
    y[t = i] = q[t = i] @d h
  }
  return y
  scan[t = 64] { return k @t v }
  emit(h) {
    seen = where(iota[t][t -> past] <= iota[t], q @d k[t -> past], 0)
    return q @d h + seen @past v[t -> past]
  }
}
layer block(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, key)](x)
  k = wk:linear[embed, (heads, key)](x)
  v = wv:linear[embed, (heads, value)](x)
  return x + wo:linear[(heads, value), embed](linear_attention[seq, key, value](q, k, v))
}
model net(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers { x = b:block(x) }
  return x
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  y = net(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = adamw(lr = 6e-4, betas = (0.9, 0.95), decay = 0.1, clip = 1.0)
  steps = 8
}
