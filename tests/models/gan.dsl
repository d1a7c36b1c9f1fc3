# SPDX-License-Identifier: Apache-2.0
# A generative adversarial network (Goodfellow et al., 2014) with perceptrons as in the paper's experiments on MNIST. The
# discriminator tells generated images from real ones; then the generator, which sees what the discriminator has just
# become, makes it take its images for real (the loss that does not saturate, section 3 of the paper).
include "std.dsl"
dim batch = 64, noise = 100, hidden = 256, wide = 512, pixel = 784, one = 1

layer generator(z[batch, noise]) -> [batch, pixel] {
  return tanh(z |> l1:linear[noise, hidden](std = 0.1) |> relu |> l2:linear[hidden, wide](std = 0.1) |> relu |> l3:linear[wide, pixel](std = 0.1))
}
fn leaky(x[...]) -> [...] { return where(x > 0, x, 0.2 * x) }
layer discriminator(x[batch, pixel]) -> [batch] {
  return (x |> l1:linear[pixel, wide](std = 0.1) |> leaky |> l2:linear[wide, hidden](std = 0.1) |> leaky |> l3:linear[hidden, one](std = 0.1))[one = 0]
}
fn softplus0(x[...]) -> [...] { return log(1 + exp(-abs(x))) + max(x, 0) }
model gan(z[batch, noise], real[batch, pixel]) -> [batch], [batch] {
  d = d:discriminator
  return d(generator(z)), d(real)
}
train {
  z[batch, noise] = synthetic(-1, 1)
  real[batch, pixel] = synthetic(-1, 1)
  of_fake, of_real = gan(z, real)
  apart = mean[batch](softplus0(-of_real) + softplus0(of_fake))
  fooled = mean[batch](softplus0(-of_fake))
  judge = adamw(lr = 2e-4, betas = (0.5, 0.999), decay = 0, params = "d.*", loss = apart)
  forger = adamw(lr = 2e-4, betas = (0.5, 0.999), decay = 0, params = "generator.*", loss = fooled)
  steps = 100_000
}
