fn f(x) {
  return g(x, on = true, model = 3)
}
fn f(x, not) { return x }
