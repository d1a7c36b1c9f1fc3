# SPDX-License-Identifier: Apache-2.0
# Parameters of a loop inside of a loop, in buckets: tests/passes/test_place.c, tests/cli/run.sh
include "std.dsl"
dim batch = 8, embed = 8, wide = 4, layers = 4, inner = 2
layer blk(x[batch, embed]) -> [batch, embed] {
  repeat j in inner { x = x + (up:linear[embed, wide](x) |> down:linear[wide, embed]) }
  return x
}
model net(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = x + blk(x) }
  return x
}
train {
  x[batch, embed] = synthetic(0, 1)
  y = net(x)
  loss = mean[batch, embed](y * y)
  optimizer = adamw(lr = 0.05)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel zero1 on two { mesh data = 2; shard batch on data; zero 1 on data }
parallel zero3 on four {
  mesh pipe = 2, data = 2
  shard batch on data
  pipeline h on pipe
  zero 3 on data
  micro batch = 2
  remat h
}
parallel ahead on four {
  mesh pipe = 2, data = 2
  shard batch on data
  pipeline h on pipe
  zero 3 on data (prefetch = 1)
  micro batch = 2
}
