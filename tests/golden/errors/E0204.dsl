# ---- axes_on_value
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x[embed]
}
# ---- call_of_tensor
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  scale = x + 1
  return scale(x)
}
# ---- label_on_function
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return a:relu(x)
}
# ---- layer_as_value
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x + layernorm[embed]
}
# ---- empty
dim batch = 4
model m(x[batch]) -> [batch] { return x[] }
