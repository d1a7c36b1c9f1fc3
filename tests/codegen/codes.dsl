# Products with codes in small groups, of which several share the lanes of a sum.
include "std.dsl"
dim batch = 2, a = 256, b = 5
model m(x[batch, a]) -> [batch, b], [batch, b], [batch, b] {
  param w16[a, b], w32[a, b], w64[a, b] = normal(0.3)
  return x @a w16, x @a w32, relu(x @a w64 + 1)
}
train {
  x[batch, a] = synthetic(0, 1)
  p, q, r = m(x)
  loss = mean[batch, b](p + q + r)
  optimizer = sgd(lr = 0.1)
  quantize = (int8("w16", group = 16), int4("w32", group = 32), int4("w64", group = 64))
  steps = 1
}
