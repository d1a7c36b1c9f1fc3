dim n = , m = 3
fn f(x[...], y[...]) -> [...] {
  a = * x
  return
}
