# SPDX-License-Identifier: Apache-2.0
# CoAtNet-0 (Dai et al., "CoAtNet: Marrying Convolution and Attention for All Data Sizes", 2021): a stem, two stages of inverted
# bottlenecks with squeeze and excitation, two of attention with a bias by relative place. The paper says 25 million
# parameters; with this text's squeezes (a quarter of what they weigh) they are 26,328,084.
include "std.dsl"
dim batch = 64, side = 224, c0 = 64, c1 = 96, c2 = 192, c3 = 384, c4 = 768, classes = 1000, n1 = 1, n2 = 2, n3 = 4, n4 = 1
dim head = 32, heads3 = c3 // head, heads4 = c4 // head, g3 = side // 16, g4 = side // 32, f3 = 4 * c3, f4 = 4 * c4
dim r3 = g3, s3 = g3, kr3 = g3, ks3 = g3, r4 = g4, s4 = g4, kr4 = g4, ks4 = g4
axis dy, dx, squeezed

layer bn(x[batch, height, width, chan]) -> [batch, height, width, chan] { return all:batchnorm[(batch, height, width), chan](x) }
layer squeeze(x[batch, height, width, chan], n) -> [batch, height, width, chan] {
  param w1[chan = x.chan, squeezed = n], w2[squeezed = n, chan = x.chan] = normal(0.1)
  param b1[squeezed = n], b2[chan = x.chan] = zeros
  m = sum[height, width](x) / (x.height * x.width)
  return x * sigmoid(silu(m @chan w1 + b1) @squeezed w2 + b2)
}
layer mbconv(x[batch, height, width, chan], n, stride) -> [batch, height, width, chan] {
  y = p1:conv(bn0:bn(x), 4 * n, 1, stride, bias = false)
  y = gelu(bn2:bn(p2:conv(gelu(bn1:bn(y)), 4 * n, 3, 1, groups = 4 * n, bias = false)))
  y = p3:conv(squeeze(y, n), n, 1)
  if stride == 2 { x = p4:conv(maxpool(x), n, 1) }
  return x + y
}
layer attention[r, s, kr, ks, e, heads](x[batch, r, s, e]) -> [batch, r, s, e] {
  param table[heads, dy = 2 * size[r] - 1, dx = 2 * size[s] - 1] = normal(0.1)
  q, k, v = wq:linear[e, (heads, head)](x), wk:linear[e, (heads, head)](x), wv:linear[e, (heads, head)](x)
  near = table[dy = iota[r] - iota[kr] + (size[r] - 1), dx = iota[s] - iota[ks] + (size[s] - 1)]
  z = f32(q @head k[r -> kr, s -> ks]) * head ** -0.5 + near
  a = exp(z - stop(max[kr, ks](z)))
  o = a / sum[kr, ks](a) @(kr, ks) v[r -> kr, s -> ks]
  return wo:linear[(heads, head), e](o)
}
layer block[r, s, kr, ks, e, heads, f](x[batch, r, s, e]) -> [batch, r, s, e] {
  x = x + attention[r, s, kr, ks, e, heads](l1:layernorm[e](x))
  return x + (l2:layernorm[e](x) |> up:linear[e, f] |> gelu |> down:linear[f, e])
}
model coatnet(image[batch, height = side, width = side, chan = 3]) -> [batch, classes] {
  x = gelu(bn0:bn(stem1:conv(image, c0, 3, 2, bias = false)))
  x = stem2:conv(x, c0)
  x = a1:mbconv(x, c1, 2)
  repeat h1 in n1 { x = mbconv(x, c1, 1) }
  x = a2:mbconv(x, c2, 2)
  repeat h2 in n2 { x = mbconv(x, c2, 1) }
  y = a3:linear[chan, c3](maxpool(x))[height -> r3, width -> s3]
  y = first3:block[r3, s3, kr3, ks3, c3, heads3, f3](y)
  repeat h3 in n3 { y = block[r3, s3, kr3, ks3, c3, heads3, f3](y) }
  z = a4:linear[c3, c4](maxpool(y[r3 -> height, s3 -> width]))[height -> r4, width -> s4]
  z = first4:block[r4, s4, kr4, ks4, c4, heads4, f4](z)
  repeat h4 in n4 { z = block[r4, s4, kr4, ks4, c4, heads4, f4](z) }
  return last:layernorm[c4](mean[r4, s4](z)) |> out:linear[c4, classes]
}
train {
  image[batch, height = side, width = side, chan = 3] = synthetic(-1, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](coatnet(image), label))
  optimizer = adamw(lr = 1e-3)
  steps = 100_000
}
