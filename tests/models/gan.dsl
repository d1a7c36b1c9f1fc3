# SPDX-License-Identifier: Apache-2.0
# A generative adversarial network (Goodfellow et al., 2014) with perceptrons as in the paper's experiments on MNIST. One loss
# and one optimizer train both at once: what the discriminator says of generated images reaches the generator with the
# sign turned (a gradient reversal), the images reach the discriminator's own part without gradient.
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
  fake = generator(z)
  judge = d:discriminator
  # the value is that of `fake`, the gradient that reaches `fake` has its sign turned
  turned = 2 * stop(fake) - fake
  f = judge(turned)
  r = judge(real)
  return softplus0(-r) + softplus0(f), f
}
train {
  z[batch, noise] = synthetic(-1, 1)
  real[batch, pixel] = synthetic(-1, 1)
  per, f = gan(z, real)
  loss = mean[batch](per)
  optimizer = adamw(lr = 2e-4, betas = (0.5, 0.999))
  steps = 100_000
}
