fn f(x[...], y[...]) -> [...] {
  a = x − y            # a minus from a word processor
  b = x × 2 ≤ y
  return a + b
}
