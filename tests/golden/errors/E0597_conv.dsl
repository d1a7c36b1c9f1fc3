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
