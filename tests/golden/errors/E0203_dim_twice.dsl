include "std.dsl"
dim batch = 4, seq = 8
dim seq = 16
fn double(x[...]) -> [...] { return 2 * x }
model m(x[batch, seq]) -> [batch, seq] { return double(x) }
