# ---- chain
fn f(x) {
  return 0 < x < 3
}
# ---- continued
fn f(x[...], y[...]) -> [...] {
  a = x +
  b = y
  return a
}
# ---- directive
parallel p on c {
  mesh data = 2 * 4, tensor = 2 zero 1
  zero 1 on data 2
}
# ---- pipe
fn f(x[...], y[...]) -> [...] {
  return x |> f + y
}
# ---- two_statements
fn f(x) {
  a = x b = 2
  c = 3 x
  return a
}
dim n = 4 dim m = 5
