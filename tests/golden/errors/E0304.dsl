# ---- contraction
dim batch = 4, seq = 8, embed = 16, heads = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[heads, embed] = normal(0.02)
  return x @heads w
}
# ---- field
dim batch = 4, seq = 8, embed = 16
axis c, chan
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[c = x.chan] = ones
  return x * sum[c](w)
}
# ---- generic
# Nothing calls these; their axes and sizes are free.
include "std.dsl"
dim batch, embed = 8
axis time
fn lost[a](x[..., a]) -> [..., a] { return sum[a](x) }
layer twice[a, b](x[..., a]) -> [..., b] {
  param w[a, b] = normal(0.02)
  h = x @a w
  return h @a w
}
layer pooled(x[..., embed], n) {
  param w[embed, out = n] = zeros
  return sum[time](x @embed w)
}
fn late[c](z[..., c]) -> [...] { if training { return z[c = z] } else { return z[c = 0] } }
fn branch(x[...], wide = false) { return if wide then nosuch(x) else x }
fn fine[a](x[..., a], k) -> [..., a] { return (x * k)[a -> (time = 64, phase)][(time, phase) -> a] }
# ---- included
include "parts/pool.dsl"
dim batch = 4, embed = 16
model m(x[batch, embed]) -> [batch, embed] { return twice(x) }
# ---- index
dim batch = 4, seq = 8, embed = 16, embd = 16
model m(x[batch, seq, embed]) -> [batch, seq] {
  return x[embd = 0]
}
# ---- library
dim batch = 4, d = 3, e = 5
layer g(x[batch, d]) -> [batch, e] {
  param w[d, e] = normal(0.1)
  return x @e w
}
# ---- rename
dim batch = 4, seq = 8, embed = 16, tok = 8
model m(x[batch, embed]) -> [batch, seq, embed] {
  return x[tok -> seq]
}
# ---- sum
dim batch = 4, seq = 8, embed = 16, heads = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return sum[heads](x)
}
