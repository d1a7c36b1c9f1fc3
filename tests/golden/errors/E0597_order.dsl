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
