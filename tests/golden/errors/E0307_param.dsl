dim batch = 4
axis tok
model m(x[batch]) -> [batch, tok] {
  param w[tok] = ones
  return x * w
}
