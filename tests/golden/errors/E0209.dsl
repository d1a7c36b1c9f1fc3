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
