fn f(x[...], y[...]) -> [...] {
  x += y
  x **= 2
  a := x
  return a
}
