# A parameter that only one stage reads and that `stop` keeps from learning: its gradient is a sum of zeros.
include "std.dsl"
dim batch = 8, embed = 8, wide = 4
layer turn(x[batch, embed]) -> [batch, embed] { return x + up:linear[embed, wide](gelu(x)) |> down:linear[wide, embed] }
model net(x[batch, embed]) -> [batch, wide] {
  param frozen[embed] = ones
  x = x |> a:turn
  x = x * stop(frozen)
  return x |> f:linear[embed, wide]
}
train {
  x[batch, embed] = synthetic(0, 1)
  y = net(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel staged on pair { mesh pipe = 2; pipeline net on pipe (cuts = ("f")); micro batch = 2 }
