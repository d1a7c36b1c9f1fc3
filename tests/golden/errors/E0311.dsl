# ---- lost
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
layer norm(x[..., embed]) -> [..., embed] { return x - mean[batch](x) + mean[embed](x) }
layer pool(x[..., embed]) -> [..., embed] { return mean[seq](x) }
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return pool(norm(x)) }
# ---- surplus
include "std.dsl"
dim batch = 4, seq = 8, embed = 16, heads = 2
model m(x[batch, seq, embed]) -> [batch, seq] {
  return linear[embed, heads](x)
}
# ---- target
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  y[batch, embed] = relu(x)
  return x + y
}
