# ---- brace
fn f(x[...], y[...]) -> [...] {
  return x
  }
}
# ---- extra
fn f(x[...], y[...]) -> [...] {
  return f(x, y))
}
# ---- other_kind
fn f(x[...], y[...]) -> [...] {
  a = f(x, y]
  b = x[seq -> kseq)
  return f(a, b])
}
