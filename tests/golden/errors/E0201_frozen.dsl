# Parameters frozen by path: no gradient, no moments, never changed.
include "std.dsl"
dim batch = 8, wide = 8, ffn = 4, layers = 4
layer f(x[batch, wide]) -> [batch, wide] { return x + up:linear[wide, ffn](gelu(x)) |> down:linear[ffn, wide] }
model m(x[batch, wide]) -> [batch, wide] {
  param scale[wide] = normal(0.5)
  y = first:f(x) * scale
  repeat h in layers { y = f(y) }
  return y
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, wide](y * y)
  frozen = ("first.*", "scal", "h.0.*")
  optimizer = adamw(lr = 0.001, clip = 1.0)
  steps = 4
  eval = every(4, steps = 1, data = synthetic(0, 1))
}
cluster c { gpus = 2; gpu = "cpu" }
parallel data on c { mesh data = 2; shard batch on data; micro batch = 2 }
parallel zero on c { mesh data = 2; shard batch on data; zero 3 on data }
parallel tensor on c { mesh tensor = 2; shard ffn on tensor; remat h }
parallel staged on c { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
