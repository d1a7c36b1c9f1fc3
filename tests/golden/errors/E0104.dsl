# ---- hexadecimal
dim n = 0xFF, m = 0b101
# ---- point
fn f(x[...], y[...]) -> [...] {
  a = .5 * x
  return a * 1e
}
# ---- too_large
dim n = 9_223_372_036_854_775_808
dim m = 1e999, k = 9_223_372_036_854_775_807
# ---- underscore
dim n = 1__000, m = 10_, k = 1_000
