# ---- dtype
fn f(float x[a], i32 y[a]) {
  param float32 w[a] = zeros
  return x
}
# ---- else_if
fn f(x, k) {
  if k > 3 { y = x } else if k > 2 { y = 2 * x } else { y = 0 }
  return y
}
# ---- equals
fn f(x, k) {
  if k = 3 { y = x }
  return y
}
train {
  steps == 4
}
# ---- index
fn f(x[...], y[...]) -> [...] {
  return x[0] + y[:]
}
# ---- layer_header
layer f[a, b](x[a]) -> {
  y = x +
}
layer (x) { return x }
parallel p {
  mesh data = 4
  shard on
}
# ---- many
fn f(x {
  return x
}
fn g(x) {
  a = b = x
  repeat h on layers {
    c = = x
  }
  return a |> 3 + 4 b
}
axis a b
dim 3 = n
# ---- missing_value
dim n = , m = 3
fn f(x[...], y[...]) -> [...] {
  a = * x
  return
}
# ---- misspelt
fn f(x) {
  parm w[a] = zeros
  for i in 3 { y = x }
  retrun x
}
# ---- python
fn f(x) {
  if x > 3:
    return x
}
# ---- trailing_comma
fn f(x[...], y[...]) -> [...] {
  return f(x, y,) + x[a,]
}
