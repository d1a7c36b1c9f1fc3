# SPDX-License-Identifier: Apache-2.0
# Windows along split axes: halos of 1 and 2 rows, one row on one side only, none; a fill that is not 0; windows of which
# rows are skipped; an axis that is whole where ranks do not divide it.
include "std.dsl"
dim batch = 4, classes = 4
axis kt
model net(image[batch, height = 32, width = 16, chan = 2]) -> [batch, classes] {
  x = image |> c1:conv(4) |> relu                                  # 3, stride 1: 1 and 1
  x = x |> c2:conv(4, k = 3, stride = 2) |> relu                   # 1 and 0
  x = x |> c3:conv(3, k = 7, stride = 2)                           # 3 and 2
  x = max[kt](window[height, kt](x, 3, 1, (2, 0), -inf)) + max[kt](window[height, kt](x, 3, 1, (0, 2), 5)) # 2 and 0, 0 and 2
  x = x |> c4:conv(3, k = 1, stride = 2) |> maxpool                # none: rows that nobody reads
  return x |> f:linear[(height, width, chan), classes]
}
train {
  image[batch, height = 32, width = 16, chan = 2] = synthetic(0, 1)
  i32 label[batch] = synthetic(0, 4)
  loss = mean[batch](xent[classes](net(image), label))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel rows on two { mesh half = 2; shard height on half }
parallel columns on two { mesh half = 2; shard width on half; micro batch = 2 }
parallel tiles on four { mesh rows = 2, columns = 2; shard height on rows; shard width on columns }
