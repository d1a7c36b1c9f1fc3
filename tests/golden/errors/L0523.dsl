# ---- outside
# dtc --no-kernels --report
include "std.dsl"
dim batch = 8, embed = 16, ffn = 16
layer block(x[batch, embed]) -> [batch, embed] { return x + tanh(w:linear[embed, ffn](x, bias = false)[ffn -> embed]) }
model net(x[batch, embed]) -> [batch, embed] {
  x = block(x)
  return x
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = net(x)
  loss = mean[batch, embed](y * y)
  optimizer = muon(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel z on four { mesh d = 4; shard batch on d; zero 1 on d }
# ---- iterations
# dtc --no-kernels --report
include "std.dsl"
dim batch = 8, embed = 16, ffn = 16, layers = 6
layer block(x[batch, embed]) -> [batch, embed] { return x + tanh(w:linear[embed, ffn](x, bias = false)[ffn -> embed]) }
model net(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = b:block(x) }
  return x
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = net(x)
  loss = mean[batch, embed](y * y)
  optimizer = muon(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel z on four { mesh d = 4; shard batch on d; zero 1 on d }
