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
