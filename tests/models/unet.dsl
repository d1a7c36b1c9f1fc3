# SPDX-License-Identifier: Apache-2.0
# U-Net (Ronneberger et al., "U-Net: Convolutional Networks for Biomedical Image Segmentation", 2015): five levels of two 3 x 3
# convolutions, with padding so that sizes stay; up by 2 x 2 transposed convolutions, beside what the way down left.
# 31,031,745 parameters for three input channels and one result.
include "std.dsl"
dim batch = 8, side = 256, c0 = 64
axis rise, run

layer double(x[batch, height, width, chan], n) -> [batch, height, width, chan] {
  return x |> c1:conv(n) |> relu |> c2:conv(n) |> relu
}
# A transposed convolution of stride 2: each element becomes a square of 2 x 2.
layer up(x[batch, height, width, chan], n) -> [batch, height, width, chan] {
  param w[chan = x.chan, rise = 2, run = 2, out = n] = normal(sqrt(1 / x.chan))
  param b[out = n] = zeros
  return (x @chan w + b)[out -> chan, (height, rise) -> height, (width, run) -> width]
}
model unet(image[batch, height = side, width = side, chan = 3]) -> [batch, height = side, width = side] {
  x1 = d1:double(image, c0)
  x2 = d2:double(maxpool(x1), 2 * c0)
  x3 = d3:double(maxpool(x2), 4 * c0)
  x4 = d4:double(maxpool(x3), 8 * c0)
  x = d5:double(maxpool(x4), 16 * c0)
  x = u4:double(concat[chan](x4, t4:up(x, 8 * c0)), 8 * c0)
  x = u3:double(concat[chan](x3, t3:up(x, 4 * c0)), 4 * c0)
  x = u2:double(concat[chan](x2, t2:up(x, 2 * c0)), 2 * c0)
  x = u1:double(concat[chan](x1, t1:up(x, c0)), c0)
  return head:conv(x, 1, 1)[chan = 0]
}
train {
  image[batch, height = side, width = side, chan = 3] = synthetic(-1, 1)
  i32 inside[batch, height = side, width = side] = synthetic(0, 2)
  z = unet(image)
  per = log(1 + exp(-abs(z))) + max(z, 0) - z * inside
  loss = sum[batch, height, width](per) / (size[batch] * side * side)
  optimizer = adamw(lr = 1e-4)
  steps = 100_000
}
