fn f(x) {
  return 0 < x < 3
}
