# SPDX-License-Identifier: Apache-2.0
# Two norms, each added up over the stages of a pipeline, which have other parameters beside their layers: all stages come to
# both sums in one order. Under `other` the first stage has no parameter of the group, and comes to its sum all the same.
include "std.dsl"
dim batch = 4, embed = 4, layers = 4, mid = 4, ffn = 6
axis win
model m(x[batch, embed]) -> [batch, embed] {
  repeat h in layers {
    y = x |> first:linear[embed, mid](bias = false) |> second:linear[mid, embed](bias = false)
    x = x + (y |> up:linear[embed, ffn](bias = false) |> down:linear[ffn, embed])
  }
  param w[win = 3] = normal(0.5)
  return window[embed, win](x, 3, pad = (2, 0)) @win w
}
train {
  x[batch, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed](y * y)
  apart = adamw(lr = 0.02, clip = 0.7, own_norm = true, params = "*first.*")
  last = adamw(lr = 0.02, clip = 0.7, own_norm = true, params = "w")
  optimizer = sgd(lr = 0.1)
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = bf16)
  steps = 2
}
cluster c { gpus = 4; gpu = "cpu" }
parallel pipe on c { mesh p = 2, d = 2; shard batch on d; pipeline h on p; micro batch = 2 }
parallel apart on c { mesh p = 2, d = 2; shard batch on d; pipeline h on p (schedule = "zb_h1") }
parallel other on c { mesh p = 2, d = 2; shard batch on d; pipeline h on p; micro batch = 2; zero 2 on d }
