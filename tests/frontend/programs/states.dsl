# States: of a layer, per iteration of a loop, read in evaluation and written in training; a shared instance.
include "std.dsl"
dim batch = 4, embed = 8, layers = 3
layer norm(x[batch, embed]) -> [batch, embed] {
  state mu[embed] = zeros
  state count[] = zeros
  c = if training then mean[batch](x) else mu
  mu = 0.9 * mu + 0.1 * c
  count = count + 1
  return x - c
}
layer scale(x[batch, embed]) -> [batch, embed] {
  param g[embed] = ones
  return x * g
}
layer block(f, x[batch, embed]) -> [batch, embed] { return f(x) + dropout(x, 0.5) }
model m(x[batch, embed]) -> [batch, embed], f32[] {
  f = shared:linear[embed, out2]
  repeat h in layers {
    x = norm(x) + f(x)[out2 -> embed]
    repeat k in layers { x = x * 0.5 + inner:norm(x) }
  }
  repeat s in (1, 2) { x = x * s + norm(x) }
  g = b:scale
  return block(g, x), if training then f32(1) else f32(2)
}
dim out2 = embed
train {
  x[batch, embed] = synthetic(0, 1)
  y, one = m(x)
  loss = mean[batch, embed](y * y) * one
  optimizer = sgd(lr = 0.1, decay_if = rank > 1)
  steps = 10
}
