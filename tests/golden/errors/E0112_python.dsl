fn f(x) {
  if x > 3:
    return x
}
