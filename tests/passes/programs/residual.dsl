# SPDX-License-Identifier: Apache-2.0
# Windows along split axes in a loop: tests/passes/test_place.c
include "std.dsl"
dim batch = 8, classes = 4, layers = 4, ch = 4
layer block(x[batch, height, width, chan]) -> [batch, height, width, chan] {
  y = x |> c1:conv(ch, k = 3) |> relu |> c2:conv(ch, k = 5)
  return relu(x + y * 0.3)
}
model net(image[batch, height = 16, width = 8, chan = 4]) -> [batch, classes] {
  x = image |> stem:conv(ch, k = 3)
  repeat h in layers { x = block(x) }
  x = maxpool(x)
  return x |> f:linear[(height, width, chan), classes]
}
train {
  image[batch, height = 16, width = 8, chan = 4] = synthetic(0, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](net(image), label))
  optimizer = adamw(lr = 0.01, clip = 1.0)
  steps = 3
}
cluster four { gpus = 4; gpu = "cpu" }
cluster eight { gpus = 8; gpu = "cpu" }
parallel z3 on four { mesh data = 2, rows = 2; shard height on rows; shard batch on data; zero 3 on data, rows; micro batch = 2 }
parallel pp on eight { mesh pipe = 2, rows = 2, cols = 2; shard height on rows; shard width on cols; pipeline h on pipe (schedule = "1f1b"); micro batch = 4; remat h; zero 2 on rows }
parallel mixed on four { mesh a = 2, b = 2; shard c1.height on a; shard c2.width on a; shard batch on b, a; remat h (keep = c1) }
