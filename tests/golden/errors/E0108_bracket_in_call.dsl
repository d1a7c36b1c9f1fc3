fn f(x[...], y[...]) -> [...] {
  return f(x[seq -> kseq, y)
}
