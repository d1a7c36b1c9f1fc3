# ---- loop
include "std.dsl"
dim batch = 4, layers = 2, embed = 4, inner = 8
layer mlp(x[batch, embed]) -> [batch, embed] {
  return down:linear[inner, embed](gelu(up:linear[embed, inner](x)))
}
model m(x[batch, embed]) -> [batch, embed] {
  param _spare[embed] = ones
  _norm = x * 2
  low, high = (min[embed](x), max[embed](x))
  kept = if training then x * low else x
  x = kept
  repeat h in layers {
    x = x + mlp(x)
    y = x * 2
  }
  return x
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
# ---- put_together
include "std.dsl"
dim batch = 4, seq = 6, embed = 4
model m(x[batch, seq, embed]) -> [batch, embed] {
  param w[embed] = ones
  h[batch, embed] = 0.0
  repeat t in seq {
    h = tanh(h + x[seq = t] * w)
    y[seq = t] = h
    _z[seq = t] = h
    last[seq = size[seq] - 1 - t] = h
  }
  return h + last[seq = 0]
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
# ---- overwritten
include "std.dsl"
dim batch = 4, embed = 4
model m(x[batch, embed]) -> [batch, embed] {
  h = relu(x)
  h = x + 1
  return h
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](m(x) ** 2)
}
