fn f(x) {
  state = x * 2
  model = x
  return x
}
