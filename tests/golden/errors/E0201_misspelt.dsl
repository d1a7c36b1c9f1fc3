include "std.dsl"
dim batch = 4, seq = 8, embed = 16, embed2 = embed
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  hidden = linear[embed, embed2](x)
  return hiden[embed2 -> embed]
}
