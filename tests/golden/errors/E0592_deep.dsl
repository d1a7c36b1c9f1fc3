# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, embed = 8, wide = embed, a = 2, b = 2, c = 2, d = 2, e = 2
model m(x[batch, embed]) -> [batch, embed] {
  repeat h in a { repeat i in b { repeat j in c { repeat k in d {
    repeat l in e { x = x + tanh(f:linear[embed, wide](x))[wide -> embed] }
  } } } }
  return x
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
