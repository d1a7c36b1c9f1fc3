fn f(x[...], y[...]) -> [...] {
  a = x[seq -> kseq
  return a
}
