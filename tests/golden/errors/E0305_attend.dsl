include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return attend[seq, seq, embed](x, x, x, scale = 1.0)
}
