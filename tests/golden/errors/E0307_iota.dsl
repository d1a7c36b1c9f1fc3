dim batch = 4
axis tok, part
model m(x[batch, tok = 9]) -> [batch] {
  w = window[tok, part](x, 3)
  return sum[tok, part](w * iota[part])
}
