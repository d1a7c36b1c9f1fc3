# SPDX-License-Identifier: Apache-2.0
# ResNet-20 (He et al., "Deep Residual Learning for Image Recognition", 2016, section 4.2), for small images: 272,474
# parameters. It trains on pictures made here, so it needs no files: a class is the direction of the stripes.
#
#   dtc examples/resnet.dsl --parallel none -o out/resnet.plan       (one rank; `--parallel two` or `four` for more)
#   dtrun out/resnet.plan
#
# The accuracy goes from 0.1 to 1 in 80 steps, less than half a minute of one core.
include "std.dsl"
dim batch = 64, side = 16, down = side, across = side, rgb = 3, classes = 10
dim c0 = 16, feature = 4 * c0, blocks = 3, more = blocks - 1, found = 1

# Every convolution is followed by a batch norm, over all but the channels.
layer norm_conv(x[batch, height, width, chan], n, k = 3, stride = 1) -> [batch, height, width, chan] {
  return x |> conv(n, k, stride, bias = false) |> batchnorm[(batch, height, width), chan]
}
# Two convolutions, and a way around them.
layer block(x[batch, height, width, chan], n, stride = 1) -> [batch, height, width, chan] {
  y = x |> c1:norm_conv(n, 3, stride) |> relu |> c2:norm_conv(n)
  if stride > 1 { x = x |> around:norm_conv(n, 1, stride) }     # `stride` is a constant: only one branch exists
  return relu(x + y)
}
model resnet(image[batch, height = side, width = side, chan = rgb]) -> [batch, classes] {
  x = image |> stem:norm_conv(c0) |> relu
  repeat a in blocks { x = block(x, c0) }                       # parameters a.0.block.c1.conv.w, a.1. ...
  x = down1:block(x, 2 * c0, 2)                                 # half as high and wide, twice the channels
  repeat b in more { x = block(x, 2 * c0) }
  x = down2:block(x, 4 * c0, 2)
  repeat c in more { x = block(x, 4 * c0) }
  return mean[height, width](x)[chan -> feature] |> head:linear[feature, classes]
}

# Stripes in direction `label` with a random shift and colour, under as much noise.
fn stripes(i32 label[batch]) -> [batch, height = side, width = side, chan = rgb] {
  angle = label * 3.1416 / classes
  shift, colour = uniform[batch](0, 6.2832), uniform[batch, rgb](0.5, 1)
  x = sin(iota[across] * cos(angle) + iota[down] * sin(angle) + shift)
  return (x * colour + normal[batch, down, across, rgb](0, 1))[down -> height, across -> width, rgb -> chan]
}
train {
  i32 label[batch] = synthetic(0, classes)
  y = resnet(stripes(label))
  loss = mean[batch](xent[classes](y, label))
  best, guess = topk[classes, found](y)
  accuracy = mean[batch](f32(guess[found = 0] == label))
  metrics = accuracy
  optimizer = sgd(lr = warmup_cosine(0.1, warmup = 10, total = 80), momentum = 0.9, decay = 1e-4)
  steps = 80
}
cluster two_cores { nodes = 1; gpus = 2; gpu = "cpu" }
parallel two on two_cores {
  mesh data = 2
  shard batch on data             # the statistics of batch norms are still those of the whole batch
}
cluster four_cores { nodes = 1; gpus = 4; gpu = "cpu" }
parallel four on four_cores {
  mesh data = 2, rows = 2
  shard batch on data
  shard height on rows            # ranks exchange the edges of their parts of an image
}
