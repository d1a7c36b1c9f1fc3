# Layers and functions of the library for images and signals.
include "std.dsl"
dim batch = 8, classes = 4, rows = 3, cols = 2, time = 8, pool = 4, each = 2
axis frame
model net(x[batch, height = 12, width = 12, chan = 4], s[batch, time, chan = 4]) -> [batch, classes] {
  y = x |> c0:conv(8, bias = false) |> batchnorm[(batch, height, width), chan]() |> relu
  y = y + (y |> c1:conv(8, dilation = 2, groups = 2) |> groupnorm[(height, width), chan](4) |> softplus)
  y = y + (y |> c2:conv(8, groups = 8) |> sigmoid)
  y = y |> c3:conv(6, k = 4, stride = 2, pad = 4, dilation = 3)
  y = y + maxpool(avgpool(y, 3, 1, 1), 3, stride = 1, pad = 1)
  z = y |> avgpool_to[height, rows] |> avgpool_to[width, cols]
  t = s[time -> frame] |> d0:conv1d[frame, chan](8, k = 4, groups = 4, causal = true, dilation = 2)
  t = t |> d1:conv1d[frame, chan](6, k = 5, stride = 2)
  u = s[batch -> (pool, each)] |> ghostnorm[pool, (each, time), chan]()
  v = u[(pool, each) -> batch] |> d2:conv1d[time, chan](4, groups = 4, dilation = 2)
  return head:linear[(rows, cols, chan), classes](z + mean[frame](t), std = 0.5)
         + tail:linear[chan, classes](mean[time](round(3 * s) * v), std = 1.0)
}
train {
  x[batch, height = 12, width = 12, chan = 4] = synthetic(-1, 1)
  s[batch, time, chan = 4] = synthetic(-1, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](net(x, s), label))
  optimizer = sgd(lr = 0.001, momentum = 0.9, decay = 0)
  steps = 4
  eval = every(4, steps = 1, data = (synthetic(-1, 1), synthetic(-1, 1), synthetic(0, classes)))
}
cluster c { gpus = 2; gpu = "cpu" }
cluster c4 { gpus = 4; gpu = "cpu" }
parallel data on c { mesh data = 2; shard batch, pool on data }
parallel high on c { mesh side = 2; shard height on side }
parallel channels on c { mesh tensor = 2; shard chan, out on tensor }
parallel long on c { mesh side = 2; shard time on side }
parallel both on c4 { mesh data = 2, tensor = 2; shard batch, pool on data; shard chan, out on tensor; zero 2 on data }
