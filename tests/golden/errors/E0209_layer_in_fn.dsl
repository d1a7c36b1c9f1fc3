include "std.dsl"
dim batch = 4, embed = 8
fn norm_relu(x[..., embed]) -> [..., embed] { return relu(layernorm[embed](x)) }
model m(x[batch, embed]) -> [batch, embed] { return norm_relu(x) }
