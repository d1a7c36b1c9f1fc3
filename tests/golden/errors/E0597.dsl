# ---- axes
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, classes = 4
dim a0 = 1, a1 = 1, a2 = 1, a3 = 1, a4 = 1, a5 = 1, a6 = 1
dim a7 = 1, a8 = 1, a9 = 1, a10 = 1, a11 = 1, a12 = 1
axis kt
model net(image[batch, height = 32, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12]) -> [batch, classes] {
  x = sum[kt](window[height, kt](image, 3, 1, 1))
  return sum[a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12](x) |> f:linear[height, classes]
}
train {
  image[batch, height = 32, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12] = synthetic(0, 1)
  i32 label[batch] = synthetic(0, 4)
  loss = mean[batch](xent[classes](net(image), label))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel rows on two { mesh half = 2; shard height on half }
# ---- conv
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, classes = 4
model net(image[batch, height = 4, width = 4, chan = 2]) -> [batch, classes] {
  x = image |> c1:conv(4, k = 3)
  x = x |> c2:conv(4, k = 7) |> relu
  return x |> f:linear[(height, width, chan), classes]
}
train {
  image[batch, height = 4, width = 4, chan = 2] = synthetic(0, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](net(image), label))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel rows on two { mesh rows = 2; shard height on rows }
# ---- count
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, classes = 4
model net(image[batch, height = 18, width = 4]) -> [batch, classes] {
  x = window[height, kh](image, 3)
  return sum[kh](x) |> f:linear[(height, width), classes]
}
train {
  image[batch, height = 18, width = 4] = synthetic(0, 1)
  i32 label[batch] = synthetic(0, 4)
  loss = mean[batch](xent[classes](net(image), label))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel rows on four { mesh rows = 2, columns = 2; shard height on rows; shard width on columns }
# ---- length
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, classes = 4
model net(image[batch, height = 8, width = 4]) -> [batch, classes] {
  x = window[height, kh](image, 7, 1, 3)
  return sum[kh](x) |> f:linear[(height, width), classes]
}
train {
  image[batch, height = 8, width = 4] = synthetic(0, 1)
  i32 label[batch] = synthetic(0, 4)
  loss = mean[batch](xent[classes](net(image), label))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel rows on four { mesh rows = 4; shard height on rows }
# ---- order
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, classes = 4
model net(image[batch, height = 16, width = 4]) -> [batch, classes] {
  x = window[height, kh](image, 3, 1, 1)
  return sum[kh](x) |> f:linear[(height, width), classes]
}
train {
  image[batch, height = 16, width = 4] = synthetic(0, 1)
  i32 label[batch] = synthetic(0, 4)
  loss = mean[batch](xent[classes](net(image), label))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel rows on four { mesh rows = 2, more = 2; shard height on more, rows }
