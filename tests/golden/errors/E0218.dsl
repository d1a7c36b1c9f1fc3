# ---- loop
include "std.dsl"
dim batch = 4, seq = 8, embed = 16, layers = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers { last = relu(x) }
  return last
}
# ---- tuple
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat s in (1, 2) { y = x * s }
  return y
}
