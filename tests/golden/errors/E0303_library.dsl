include "std.dsl"
dim batch = 4
axis tok
model m(x[batch, tok = 6], y[batch, tok = 5]) -> [batch] {
  z = attend[tok, ktok, head](f(x), f(x)[tok -> ktok], f(y)[tok -> ktok], scale = 1.0)
  return sum[tok, head](z)
}
dim head = 2
axis ktok
fn f(x[...]) { return x * (iota[head] + 1.0) }
