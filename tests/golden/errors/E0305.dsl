# ---- attend
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return attend[seq, seq, embed](x, x, x, scale = 1.0)
}
# ---- library
include "std.dsl"
dim batch = 4, side = 8
model m(x[batch, height = side, width = side, chan = 3, kh = 2]) -> [batch] {
  y = x |> conv(4)
  return sum[height, width, kh, chan](y)
}
# ---- loop_axis
include "std.dsl"
dim batch = 4, seq = 6, embed = 8
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  h[batch, embed] = 0.0
  repeat t in seq {
    y[seq = t] = x
  }
  return y
}
train { x[batch, seq, embed] = synthetic(0, 1); loss = mean[batch, seq, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- onehot
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  i = iota[embed]
  return x + onehot[embed](i)
}
# ---- param
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[embed, embed] = normal(0.02)
  return x @embed w
}
# ---- rename
dim batch = 4, seq = 16, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x[seq -> embed]
}
