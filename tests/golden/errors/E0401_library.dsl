include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed], bool keep[batch, seq]) -> [batch, seq, embed] {
  return dense:linear[embed, wide](x, bias = keep)[wide -> embed]
}
dim wide = embed
