# ---- end
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (cuts = 5)
  micro batch = 4
}
# ---- number
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (cuts = (1, 2))
  micro batch = 4
}
# ---- order
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (schedule = "zb_v", cuts = (3, 2, 1))
  micro batch = 4
}
# ---- nothing_before
include "std.dsl"
dim batch = 8, embed = 4, wide = embed, layers = 2
model m(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = x + tanh(up:linear[embed, wide](x))[wide -> embed] }
  return x
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel p on two {
  mesh pipe = 2
  pipeline h on pipe (cuts = 0)
  micro batch = 8
}
