fn f(x[...], y[...]) -> [...] {
  return f(x, y,) + x[a,]
}
