dim batch = 4, huge = 4_000_000_000, vast = 4_000_000_000
model m(x[batch]) -> [batch] {
  param w[huge, vast] = zeros
  return x + sum[huge, vast](w)
}
