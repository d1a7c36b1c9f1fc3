# ---- default_labels
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  x = x + layernorm[embed](x)
  return x + layernorm[embed](x)
}
# ---- labels
include "std.dsl"
dim batch = 4, embed = 16, hidden = embed
model m(x[batch, embed]) -> [batch, embed] {
  q = w:linear[embed, hidden](x)
  k = w:linear[embed, hidden](x)
  return (q * k)[hidden -> embed]
}
# ---- loops
include "std.dsl"
dim batch = 4, seq = 8, embed = 16, layers = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers { x = x + n:layernorm[embed](x) }
  repeat h in layers { x = x + n:layernorm[embed](x) }
  return x
}
