# ---- layer_in_fn
include "std.dsl"
dim batch = 4, embed = 8
fn norm_relu(x[..., embed]) -> [..., embed] { return relu(layernorm[embed](x)) }
model m(x[batch, embed]) -> [batch, embed] { return norm_relu(x) }
# ---- param_in_fn
dim batch = 4, embed = 8
fn scale(x[..., embed]) -> [..., embed] {
  param gain[embed] = ones
  return x * gain
}
model m(x[batch, embed]) -> [batch, embed] { return scale(x) }
# ---- state_of_helper
include "mini/model.dsl"
fn helper(g[...]) -> [...] {
  state m[...] = zeros
  m = g
  return m
}
fn mine(p[...], g[...], lr) -> [...] {
  return p - lr * helper(g)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = mine(lr = 0.1)
  steps = 10
}
