fn f(x[...], y[...]) -> [...] {
  a = .5 * x
  return a * 1e
}
