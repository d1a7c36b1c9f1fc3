# Batch norm by pools of samples: exact with micro-batches and ranks that hold whole pools.
include "std.dsl"
dim batch = 8, wide = 6, pool = 4, each = 2, layers = 2
model m(x[batch, wide]) -> [batch, wide] {
  y = x[batch -> (pool, each)]
  repeat h in layers { y = y + gelu(l:linear[wide, wide2](y, std = 0.5, bias = false) |> norm:ghostnorm[pool, each, wide2]())[wide2 -> wide] }
  return y[(pool, each) -> batch]
}
dim wide2 = wide
train {
  x[batch, wide] = synthetic(-1, 1)
  loss = mean[batch, wide](m(x) ** 2)
  optimizer = sgd(lr = 0.01)
  steps = 4
  eval = every(4, steps = 1, data = synthetic(-1, 1))
}
cluster c { gpus = 2; gpu = "cpu" }
parallel micro on c { mesh data = 2; shard batch on data; micro batch = 2 }
parallel pipe on c { mesh pipe = 2; pipeline h on pipe; micro batch = 4 }
