dim batch = 4, k = 3
axis tok
model m(x[batch]) -> [batch] {
  param w[tok = k - 4] = ones
  return x + sum[tok](w)
}
