# ---- brace
fn f(x) {
  if true {
    y = x
  return y
}
fn g(x) { return x }
# ---- bracket
fn f(x[...], y[...]) -> [...] {
  a = x[seq -> kseq
  return a
}
# ---- bracket_in_call
fn f(x[...], y[...]) -> [...] {
  return f(x[seq -> kseq, y)
}
# ---- end_of_file
train {
  steps = 3
  loss = mean[batch](l
# ---- parenthesis
include "std.dsl"
layer mlp(x[batch, embed]) {
  h = relu(up:linear[embed, ffn](x)
  return down:linear[ffn, embed](h)
}
