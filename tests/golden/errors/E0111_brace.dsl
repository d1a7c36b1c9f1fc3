fn f(x[...], y[...]) -> [...] {
  return x
  }
}
