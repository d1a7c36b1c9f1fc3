# ---- drawn
dim batch = 4, seq = 8
axis part
model m(x[batch, seq]) -> [batch, seq] {
  return x * sum[part](uniform[part]())
}
# ---- iota
dim batch = 4
axis tok, part
model m(x[batch, tok = 9]) -> [batch] {
  w = window[tok, part](x, 3)
  return sum[tok, part](w * iota[part])
}
# ---- param
dim batch = 4
axis tok
model m(x[batch]) -> [batch, tok] {
  param w[tok] = ones
  return x * w
}
# ---- source
dim batch = 4
model m(x[batch]) -> [batch] { return x }
train {
  x = synthetic(0, 1)
  loss = sum[batch](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
