include "std.dsl"
dim batch = 4, seq = 8, embed = 16, layers = 2
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  repeat h in layers { x = x + n:layernorm[embed](x) }
  repeat h in layers { x = x + n:layernorm[embed](x) }
  return x
}
