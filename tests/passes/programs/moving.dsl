include "std.dsl"
axis joined
dim batch = 2, seq = 4, embed = 6, pick = 2, place = 3, short = 2, g = 2, p = 3
model m(i32 t[batch, seq]) -> [batch, seq] {
  param x[batch, seq, embed] = normal(1)
  a, i = topk[embed, pick](x)
  b = x[embed = i] * a                                  # gather at the same places
  c = scatter[pick](a, place = i % 3)
  d = x[seq = iota[short] + 1]
  e = x[embed -> (g, p)]
  f = concat[joined](a[pick -> joined], x[embed -> joined])
  h = cumsum[embed, seq](x)
  o = e[(p, g) -> embed]
  k, l = unstack[g](e)
  w = max[embed](x) + min[embed](x) + abs(x[embed = 2]) + x[embed = 0] ** 3
  z = where(x > 0.3, x * x, 0) @embed x
  return w + z + sum[pick](b) + sum[place](c * (iota[place] + 1)) + sum[short, embed](d * d) + sum[embed](h * x)
       + sum[g, p](e * (iota[g] + 2 * iota[p])) + sum[p](k * l) + sum[embed](o * x) + sum[joined](f * f * f)
}
train {
  i32 t[batch, seq] = synthetic(0, 3)
  loss = mean[batch, seq](m(t))
  optimizer = adamw(lr = 0.1)
  steps = 1
}
