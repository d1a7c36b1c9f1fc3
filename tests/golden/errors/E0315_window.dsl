dim batch = 4
axis tok, part
model m(x[batch, tok = 9]) -> [batch] {
  return sum[tok, part](window[tok, part](x, 12))
}
