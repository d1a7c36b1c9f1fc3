# Draws without axes: one number for all samples.
include "std.dsl"
dim batch = 4
model m(x[batch]) -> [batch] {
  return x * f32(bernoulli[](0.5)) + uniform[](lo = 0, hi = 2) + normal[]()
}
