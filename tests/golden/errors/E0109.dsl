# ---- argument
fn f(x) {
  return g(x, on = true, model = 3)
}
fn f(x, not) { return x }
# ---- axis
dim layer = 12, heads = 4
fn f(x[in, out]) { return x }
# ---- statement
fn f(x) {
  state = x * 2
  model = x
  return x
}
