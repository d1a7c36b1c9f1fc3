fn f(x[...], y[...]) -> [...] {
  return x[0] + y[:]
}
