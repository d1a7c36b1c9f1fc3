# Two instances of a layer with a loop: the pipeline names the loops by their paths.
include "std.dsl"
dim batch = 4, wide = 6, ffn = 4, layers = 3
layer tower(x[batch, wide]) -> [batch, wide] {
  repeat h in layers { x = x + up:linear[wide, ffn](gelu(x)) |> down:linear[ffn, wide] }
  return x
}
layer waves(x[batch, wide]) -> [batch, wide] {
  repeat k in layers { x = x + 0.5 * sin(x) }
  return x
}
model m(x[batch, wide]) -> [batch, wide] {
  return x |> first:tower |> second:tower |> deep:waves
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = sum[batch, wide](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel both on pair { mesh pipe = 2; pipeline first.h, second.h on pipe; micro batch = 2 }
parallel label on pair { mesh pipe = 2; pipeline k on pipe; micro batch = 2 }
