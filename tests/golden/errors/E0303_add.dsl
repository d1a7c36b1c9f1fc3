dim batch = 4
axis tok, part
model m(x[batch, tok = 9]) -> [batch] {
  y = window[tok, part](x, 3)
  z = sum[part](y)
  return sum[tok](x + z)
}
