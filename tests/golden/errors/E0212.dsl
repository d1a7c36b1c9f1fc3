# ---- model_twice
dim batch = 4, d = 3
model m(x[batch, d]) -> [batch] {
  param w[d] = normal(0.1)
  return x @d w
}
train {
  x[batch, d] = synthetic(0, 1)
  y[batch, d] = synthetic(0, 1)
  loss = sum[batch](m(x) * m(y))
  optimizer = sgd(0.1)
  steps = 1
}
# ---- twice
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[embed] = ones
  param w[embed] = zeros
  return x * w
}
# ---- two_types
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
