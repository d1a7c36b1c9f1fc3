# ---- chunks
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 4)
  micro batch = 4
}
# ---- stages
include "mini/train.dsl"
cluster eight { gpus = 8; gpu = "cpu" }
parallel p on eight {
  mesh pipe = 8
  pipeline h on pipe
  micro batch = 8
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
cluster four { gpus = 4; gpu = "cpu" }
parallel p on four {
  mesh pipe = 4
  pipeline h on pipe
  micro batch = 8
}
# ---- too_many
include "std.dsl"
dim batch = 1025, embed = 4, wide = embed, layers = 2000
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
cluster four { gpus = 1025; gpu = "cpu" }
parallel p on four {
  mesh pipe = 1025
  pipeline h on pipe
  micro batch = 1025
}
