# SPDX-License-Identifier: Apache-2.0
# ResNet-50 (He et al., "Deep Residual Learning for Image Recognition", 2016), with strides in the 3 x 3 convolutions.
# 25,557,032 parameters.
include "std.dsl"
dim batch = 256, side = 224, c0 = 64, classes = 1000, found = 32 * c0, more1 = 2, more2 = 3, more3 = 5, more4 = 2

layer bottleneck(x[batch, height, width, chan], n, stride, project) -> [batch, height, width, chan] {
  y = c1:conv(x, n, 1, bias = false) |> n1:batchnorm[(batch, height, width), chan] |> relu
  y = c2:conv(y, n, 3, stride, bias = false) |> n2:batchnorm[(batch, height, width), chan] |> relu
  y = c3:conv(y, 4 * n, 1, bias = false) |> n3:batchnorm[(batch, height, width), chan]
  if project { x = c4:conv(x, 4 * n, 1, stride, bias = false) |> n4:batchnorm[(batch, height, width), chan] }
  return relu(x + y)
}
model resnet(image[batch, height = side, width = side, chan = 3]) -> [batch, classes] {
  x = stem:conv(image, c0, 7, 2, bias = false) |> norm:batchnorm[(batch, height, width), chan] |> relu |> maxpool(3, 2, 1)
  x = s1:bottleneck(x, c0, 1, true)
  repeat h1 in more1 { x = bottleneck(x, c0, 1, false) }
  x = s2:bottleneck(x, 2 * c0, 2, true)
  repeat h2 in more2 { x = bottleneck(x, 2 * c0, 1, false) }
  x = s3:bottleneck(x, 4 * c0, 2, true)
  repeat h3 in more3 { x = bottleneck(x, 4 * c0, 1, false) }
  x = s4:bottleneck(x, 8 * c0, 2, true)
  repeat h4 in more4 { x = bottleneck(x, 8 * c0, 1, false) }
  return head:linear[found, classes](mean[height, width](x)[chan -> found])
}
train {
  image[batch, height = side, width = side, chan = 3] = synthetic(-1, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](resnet(image), label))
  optimizer = sgd(lr = 0.1, momentum = 0.9, decay = 1e-4)
  steps = 450_000
}
