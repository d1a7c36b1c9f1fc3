# SPDX-License-Identifier: Apache-2.0
# BYOL (Grill et al., "Bootstrap Your Own Latent", 2020): a student predicts what a teacher says of another view of the same image;
# the teacher is the moving average of the student, kept in states. Here over images as vectors, with the paper's head sizes.
include "std.dsl"
dim batch = 256, pixel = 3072, wide = 512, hidden = 4096, latent = 256

fn unit(x[batch, latent]) -> [batch, latent] { return x * rsqrt(sum[latent](x * x) + 1e-6) }

model byol(a[batch, pixel], b[batch, pixel]) -> [batch] {
  param w1[pixel, wide] = normal(0.02)
  param w2[wide, hidden] = normal(0.05)
  param w3[hidden, latent] = normal(0.02)
  state t1[pixel, wide] = normal(0.02)
  state t2[wide, hidden] = normal(0.05)
  state t3[hidden, latent] = normal(0.02)
  p = relu(relu(a @pixel w1) @wide w2) @hidden w3 |> up:linear[latent, hidden] |> relu |> down:linear[hidden, latent]
  q = relu(relu(b @pixel t1) @wide t2) @hidden t3
  t1 = 0.99 * t1 + 0.01 * stop(w1)
  t2 = 0.99 * t2 + 0.01 * stop(w2)
  t3 = 0.99 * t3 + 0.01 * stop(w3)
  return 2 - 2 * sum[latent](unit(p) * unit(stop(q)))
}
train {
  a[batch, pixel] = synthetic(-1, 1)
  b[batch, pixel] = synthetic(-1, 1)
  loss = mean[batch](byol(a, b))
  optimizer = adamw(lr = 3e-4)
  steps = 100_000
}
