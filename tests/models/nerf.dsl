# SPDX-License-Identifier: Apache-2.0
# NeRF (Mildenhall et al., "Representing Scenes as Neural Radiance Fields for View Synthesis", 2020), one network: what is at a place,
# and how it looks from a direction; a pixel is what its ray meets, dimmed by what lies before. 595,844 parameters.
include "std.dsl"
dim batch = 4096, depth = 64, space = 3, colour = 3, sides = 2, wide = 256, wide1 = wide, narrow = 128
dim fine = 10, coarse = 4
axis one

# A number, and sines and cosines of its multiples by powers of 2, into a linear layer.
layer waves[k](x[..., space], std = 0.1) -> [..., wide1] {
  param w[space, wide1], u[sides, k, space, wide1] = normal(std)
  angle = x * 2.0 ** iota[k]
  return x @space w + stack[sides](sin(angle), cos(angle)) @(sides, k, space) u
}
layer dense(x[..., wide]) -> [..., wide] { return relu(linear[wide, wide1](x, std = 0.1))[wide1 -> wide] }

model field(x[batch, depth, space], from[batch, space]) -> [batch, depth], [batch, depth, colour] {
  param b[wide1] = zeros
  h = relu(first:waves[fine](x) + b)[wide1 -> wide]
  repeat f in 4 { h = dense(h) }
  h = relu(middle:linear[wide, wide1](h, std = 0.1) + again:waves[fine](x))[wide1 -> wide]
  repeat g in 2 { h = dense(h) }
  param thick[wide] = normal(0.1)
  param much[one = 1] = zeros
  seen = feature:linear[wide, wide1](h, std = 0.1)
  c = relu(view:direct[coarse](seen, from)) |> tint:linear[narrow, colour](std = 0.1)
  return relu(h @wide thick + much[one = 0]), sigmoid(c)
}
layer direct[k](x[batch, depth, wide1], from[batch, space]) -> [batch, depth, narrow] {
  param w[space, narrow], u[sides, k, space, narrow] = normal(0.1)
  angle = from * 2.0 ** iota[k]
  return own:linear[wide1, narrow](x, std = 0.1) + (from @space w + stack[sides](sin(angle), cos(angle)) @(sides, k, space) u)
}
train {
  eye[batch, space] = synthetic(-1, 1)
  toward[batch, space] = synthetic(-1, 1)
  jitter[batch, depth] = synthetic(0, 1)
  pixel[batch, colour] = synthetic(0, 1)
  at = 2 + 4 * (iota[depth] + jitter) / depth                                        # one place in each part of the ray
  gap = where(iota[depth] < depth - 1, at[depth = iota[depth] + 1] - at, 1)
  thick, c = field(eye + at * toward, toward)  # lint: allow L0301 - places along each ray
  met = thick * gap
  reach = exp(met - cumsum[depth](met))                                              # what comes from there to the eye
  said = sum[depth](reach * (1 - exp(-met)) * c)
  loss = mean[batch, colour]((said - pixel) ** 2)
  optimizer = adamw(lr = 5e-4, decay = 0)
  steps = 200_000
}
