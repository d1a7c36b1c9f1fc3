fn f(x[...], y[...]) -> [...] {
  a = x > 0 && y > 0 || !x
  b = x ^ 2
  return a
}
