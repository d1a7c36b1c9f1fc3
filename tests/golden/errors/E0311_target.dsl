include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  y[batch, embed] = relu(x)
  return x + y
}
