include "parts/pool.dsl"
dim batch = 4, embed = 16
model m(x[batch, embed]) -> [batch, embed] { return twice(x) }
