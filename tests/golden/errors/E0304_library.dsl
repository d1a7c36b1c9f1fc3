dim batch = 4, d = 3, e = 5
layer g(x[batch, d]) -> [batch, e] {
  param w[d, e] = normal(0.1)
  return x @e w
}
