# ---- ambiguous
include "std.dsl"
dim batch = 8, d = 8, e = 4, layers = 4
layer tower(x[batch, d]) -> [batch, d] {
  repeat h in layers { x = x + up:linear[d, e](gelu(x)) |> down:linear[e, d] }
  return x
}
model m(x[batch, d]) -> [batch, d] {
  return x |> first:tower |> second:tower
}
train {
  x[batch, d] = synthetic(0, 1)
  y = m(x)
  loss = sum[batch, d](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel paths on pair { mesh pipe = 2; pipeline first.h, second.h on pipe; micro batch = 2 }
parallel label on pair { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
parallel misspelt on pair { mesh pipe = 2; pipeline second.hs on pipe; micro batch = 2 }
# ---- inner
dim batch = 8, d = 8, layers = 4, deep = 2
model m(x[batch, d]) -> [batch, d] {
  repeat h in layers {
    param w[d] = ones
    repeat g in deep { x = x * w }
  }
  return x
}
train {
  x[batch, d] = synthetic(0, 1)
  y = m(x)
  loss = sum[batch, d](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh pipe = 2; pipeline g on pipe; micro batch = 2 }
# ---- pipeline
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline hs on pipe
  micro batch = 8
}
# ---- remat
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  remat hh
}
