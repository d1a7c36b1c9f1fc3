fn f(x[...], y[...]) -> [...] {
  a = x +
  b = y
  return a
}
