fn f(x[...], y[...]) -> [...] {
  a = f(x, y]
  b = x[seq -> kseq)
  return f(a, b])
}
