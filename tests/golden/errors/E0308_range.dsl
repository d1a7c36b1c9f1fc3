dim batch = 4
axis tok
model m(x[batch, tok = 9]) -> [batch] {
  return sum[tok](x[tok = 2 .. 12])
}
