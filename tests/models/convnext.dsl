# SPDX-License-Identifier: Apache-2.0
# ConvNeXt-T (Liu et al., "A ConvNet for the 2020s", 2022): convolutions of 7 x 7 channel by channel, layer norms, and blocks as a
# transformer's, whose results are scaled by a factor for each channel. 28,589,128 parameters. Without stochastic depth.
include "std.dsl"
dim batch = 256, side = 224, classes = 1000, c0 = 96, found = 8 * c0, n1 = 3, n2 = 3, n3 = 9, n4 = 3

layer block(x[batch, height, width, chan]) -> [batch, height, width, chan] {
  param scale[chan = x.chan] = 1e-6
  y = norm:layernorm[chan](deep:conv(x, x.chan, 7, groups = x.chan), eps = 1e-6)
  return x + scale * (y |> up:conv(4 * x.chan, 1) |> gelu |> down:conv(x.chan, 1))
}
layer shorter(x[batch, height, width, chan], n) -> [batch, height, width, chan] {
  return norm:layernorm[chan](x, eps = 1e-6) |> c:conv(n, 2, 2, pad = 0)
}
model convnext(image[batch, height = side, width = side, chan = 3]) -> [batch, classes] {
  x = norm:layernorm[chan](stem:conv(image, c0, 4, 4, pad = 0), eps = 1e-6)
  repeat h1 in n1 { x = block(x) }
  x = t2:shorter(x, 2 * c0)
  repeat h2 in n2 { x = block(x) }
  x = t3:shorter(x, 4 * c0)
  repeat h3 in n3 { x = block(x) }
  x = t4:shorter(x, 8 * c0)
  repeat h4 in n4 { x = block(x) }
  x = last:layernorm[found](mean[height, width](x)[chan -> found], eps = 1e-6)
  return out:linear[found, classes](x)
}
train {
  image[batch, height = side, width = side, chan = 3] = synthetic(-1, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](convnext(image), label))
  optimizer = adamw(lr = 4e-3, decay = 0.05, decay_if = rank > 1)
  steps = 100_000
}
