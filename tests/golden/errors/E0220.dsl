# ---- bound
include "std.dsl"
dim batch = 4, seq = 6, embed = 8
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  h[batch, embed] = 0.0
  y = x
  repeat t in seq {
    h = 0.5 * h + x[seq = t]
    y[seq = t] = h
  }
  return y
}
train { x[batch, seq, embed] = synthetic(0, 1); loss = mean[batch, seq, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- index
include "std.dsl"
dim batch = 4, seq = 6, embed = 8
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  h[batch, embed] = 0.0
  repeat t in seq {
    h = 0.5 * h + x[seq = t]
    y[seq = t + 1] = h
    z[seq = t, embed = 2] = h
    repeat k in 2 { w[seq = t] = h }
  }
  return y
}
train { x[batch, seq, embed] = synthetic(0, 1); loss = mean[batch, seq, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- read
include "std.dsl"
dim batch = 4, seq = 6, embed = 8
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  h[batch, embed] = 0.0
  repeat t in seq {
    h = 0.5 * h + x[seq = t]
    y[seq = t] = h
    y[seq = t] = h + 1
    h = h + y[seq = t]
  }
  return y
}
train { x[batch, seq, embed] = synthetic(0, 1); loss = mean[batch, seq, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
