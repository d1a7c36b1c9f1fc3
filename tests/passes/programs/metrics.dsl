# Values beside the loss: means and quotients over the batch, one of data alone.
include "std.dsl"
dim batch = 12, wide = 6, classes = 5, layers = 4
model net(x[batch, wide]) -> [batch, classes] {
  repeat h in layers { x = x + gelu(f:linear[wide, wide2](x, std = 0.3)) [wide2 -> wide] }
  return out:linear[wide, classes](x, std = 0.3)
}
dim wide2 = wide
train {
  x[batch, wide] = synthetic(-1, 1)
  i32 label[batch] = synthetic(0, classes)
  z = net(x)
  loss = mean[batch](xent[classes](z, label))
  right = z[classes = label] >= max[classes](z)
  accuracy = mean[batch](f32(right))
  seen = sum[batch](label < 3)
  some = sum[batch](f32(right and label < 3)) / max(seen, 1)
  metrics = (accuracy, some, seen)
  optimizer = sgd(lr = 0.1)
  steps = 3
  eval = every(3, steps = 2, data = (synthetic(-1, 1), synthetic(0, classes)))
}
cluster c { gpus = 2; gpu = "cpu" }
parallel data on c { mesh data = 2; shard batch on data; micro batch = 3 }
parallel classes on c { mesh tensor = 2; shard classes on tensor (pad = 6) }
parallel pipe on c { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
