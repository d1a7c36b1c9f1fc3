dim n = $SEQ
dim m = 4 ? 1
fn f(x[...], y[...]) -> [...] {
  return x # $ is fine here
}
