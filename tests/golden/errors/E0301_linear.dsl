include "std.dsl"
dim batch = 4, seq = 8, embed = 16, hidden = 32
model m(x[batch, seq, embed]) -> [batch, seq, hidden] {
  y = linear[embed, hidden](x)
  return down:linear[embed, hidden](y)
}
