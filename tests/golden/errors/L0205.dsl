# ---- made_inside
include "std.dsl"
dim batch = 4, seq = 6, embed = 8
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  h[batch, embed] = 0.0
  repeat t in seq {
    u = x * 2
    h = 0.5 * h + u[seq = t]
    y[seq = t] = h
  }
  return y
}
train { x[batch, seq, embed] = synthetic(0, 1); loss = mean[batch, seq, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
