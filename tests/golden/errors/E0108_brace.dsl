fn f(x) {
  if true {
    y = x
  return y
}
fn g(x) { return x }
