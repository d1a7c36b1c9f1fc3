# ---- add
dim batch = 4
axis tok, part
model m(x[batch, tok = 9]) -> [batch] {
  y = window[tok, part](x, 3)
  z = sum[part](y)
  return sum[tok](x + z)
}
# ---- argument
dim batch = 4
axis tok
layer head(x[batch, tok = 4]) -> [batch] { return sum[tok](x) }
model m(x[batch, tok = 5]) -> [batch] { return head(x) }
# ---- declared
dim batch = 4, embed = 16
model m(x[batch, embed = 8]) -> [batch] { return sum[embed](x) }
# ---- iterations
include "std.dsl"
dim batch = 4, seq = 6, embed = 8
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  h[batch, embed] = 0.0
  repeat t in 5 {
    h = 0.5 * h + x[seq = t]
    y[seq = t] = h
  }
  return y
}
train { x[batch, seq, embed] = synthetic(0, 1); loss = mean[batch, seq, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- library
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
# ---- rename
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq]) -> [batch, embed] {
  k = x[seq -> embed]
  return k
}
