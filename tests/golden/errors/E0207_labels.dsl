include "std.dsl"
dim batch = 4, embed = 16, hidden = embed
model m(x[batch, embed]) -> [batch, embed] {
  q = w:linear[embed, hidden](x)
  k = w:linear[embed, hidden](x)
  return (q * k)[hidden -> embed]
}
