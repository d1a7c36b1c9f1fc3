# SPDX-License-Identifier: Apache-2.0
# A generative adversarial network (Goodfellow et al., 2014): two losses that take turns. The discriminator learns to
# tell generated points from real ones; then the generator, which sees what the discriminator has just become, to be
# taken for real. Each has an optimizer of its own, and is a constant where the other learns. The points lie around eight
# places on a circle (the test of Metz et al., "Unrolled Generative Adversarial Networks", 2017) and are made here, so it
# needs no files:
#
#   dtc examples/gan.dsl --parallel none -o out/gan.plan       (one rank; `--parallel two` for two)
#   dtrun out/gan.plan
#
# `near`, the share of generated points that lie within 0.3 of one of the places, goes from 0.1 to 0.75 in seconds.
# With `every = 3` in the call of `forger` the generator has its turn in every third step only.
include "std.dsl"
dim batch = 256, noise = 16, hidden = 64, wide = hidden, plane = 2, places = 8, one = 1

layer generator(z[batch, noise]) -> [batch, plane] {
  return z |> l1:linear[noise, hidden](std = 0.2) |> relu |> l2:linear[hidden, wide](std = 0.15) |> relu
           |> l3:linear[wide, plane](std = 0.1)
}
fn leaky(x[...]) -> [...] { return where(x > 0, x, 0.2 * x) }
layer discriminator(x[batch, plane]) -> [batch] {
  u = x |> l1:linear[plane, hidden](std = 0.5) |> leaky |> l2:linear[hidden, wide](std = 0.15) |> leaky
  return l3:linear[wide, one](u, std = 0.1)[one = 0]
}
# What is generated, and what the discriminator says of that and of what is real.
model gan(z[batch, noise], real[batch, plane]) -> [batch, plane], [batch], [batch] {
  d = d:discriminator
  fake = generator(z)
  return fake, d(fake), d(real)
}
fn on_circle(place[...]) -> [..., plane] {
  angle = place * 2 * 3.14159265 / size[places]
  return where(iota[plane] == 0, cos(angle), sin(angle))
}
train {
  i32 place[batch] = synthetic(0, places)
  real = on_circle(place) + normal[batch, plane](0, 0.05)
  fake, of_fake, of_real = gan(normal[batch, noise](0, 1), real)
  away = fake - on_circle(iota[places])
  near = mean[batch](f32(min[places](sum[plane](away * away)) < 0.09))
  apart = mean[batch](softplus(-of_real) + softplus(of_fake))
  fooled = mean[batch](softplus(-of_fake))
  judge = adamw(lr = 2e-3, betas = (0.5, 0.999), decay = 0, params = "d.*", loss = apart)
  forger = adamw(lr = 3e-4, betas = (0.5, 0.999), decay = 0, params = "generator.*", loss = fooled)
  metrics = near
  steps = 2000
}
cluster laptop { nodes = 1; gpus = 2; gpu = "cpu" }
parallel two on laptop {
  mesh data = 2
  shard batch on data
  zero 1 on data
}
