include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed], y[batch, seq]) -> [batch, seq] {
  return xent[embed](x, y)
}
