# A loop that nothing is differentiated through: the gradients of its parameters are zeros that no loop stacks.
include "std.dsl"
dim batch = 8, wide = 8, ffn = 4, layers = 3
layer f(x[batch, wide]) -> [batch, wide] { return x + up:linear[wide, ffn](gelu(x)) |> down:linear[ffn, wide] }
model m(x[batch, wide]) -> [batch, wide] {
  a = first:f(x)
  y = stop(a)
  repeat h in layers { y = f(y) }
  return a * stop(y)
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel data on pair { mesh data = 2; shard batch on data; micro batch = 2 }
parallel staged on pair { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
parallel cut on pair { mesh data = 2; shard batch on data; zero 2 on data; micro batch = 2 }
cluster four { gpus = 4; gpu = "cpu" }
parallel both on four { mesh pipe = 2, data = 2; pipeline h on pipe; shard batch on data; zero 2 on data; micro batch = 2 }
