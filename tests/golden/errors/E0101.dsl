# ---- control
dim n = 4 
dim m = 4
# ---- curly_quotes
include “std.dsl”
dim n = 4
# ---- dollar
dim n = $SEQ
dim m = 4 ? 1
fn f(x[...], y[...]) -> [...] {
  return x # $ is fine here
}
# ---- greek
dim α = 4
# ---- single_quotes
include 'std.dsl'
train {
  data = bin('corpus/*.bin', u16)
}
# ---- typographic
fn f(x[...], y[...]) -> [...] {
  a = x − y            # a minus from a word processor
  b = x × 2 ≤ y
  return a + b
}
