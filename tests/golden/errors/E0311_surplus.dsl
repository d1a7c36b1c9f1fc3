include "std.dsl"
dim batch = 4, seq = 8, embed = 16, heads = 2
model m(x[batch, seq, embed]) -> [batch, seq] {
  return linear[embed, heads](x)
}
