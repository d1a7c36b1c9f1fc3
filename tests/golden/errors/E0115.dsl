# ---- c
fn f(x[...], y[...]) -> [...] {
  a = x > 0 && y > 0 || !x
  b = x ^ 2
  return a
}
# ---- compound
fn f(x[...], y[...]) -> [...] {
  x += y
  x **= 2
  a := x
  return a
}
# ---- join
fn f(x[...], y[...]) -> [...] {
  return x ++ y
}
