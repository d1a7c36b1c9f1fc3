dim batch = 4
axis tok
layer scale(x[..., tok]) -> [..., tok] {
  param gain[tok] = ones
  return x * gain
}
model m(x[batch, tok = 3], y[batch, tok = 5]) -> [batch] {
  f = s:scale
  return sum[tok](f(x)) + sum[tok](f(y))
}
