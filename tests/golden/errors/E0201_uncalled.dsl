include "std.dsl"
dim batch = 4, embed = 8
layer unused(x[batch, embd]) -> [batch, embed] {
  y = x @embed w
  if training { z = foo(x) }
  repeat k in layrs { x = x + y2 }
  return linear[embed, out](y)[out -> embd]
}
model m(x[batch, embed]) -> [batch, embed] { return x }
