# SPDX-License-Identifier: Apache-2.0
# BYOL (Grill et al., "Bootstrap Your Own Latent", 2020): features of images without labels. A student sees one view of
# an image and predicts what its teacher says of another; the teacher is the moving average of the student. Whether what
# they find is useful is asked of a probe: a linear layer that sees the labels, and from which nothing else learns. The
# images are made here (a class is the direction of the stripes), so it needs no files:
#
#   dtc examples/byol.dsl --parallel none -o out/byol.plan       (one rank; `--parallel two` for two)
#   dtrun out/byol.plan
#
# The probe's accuracy goes from 1/6 to 1 in a few seconds. Without `distance` in the loss the student stays as it was
# drawn, and the same probe comes to 0.6.
include "std.dsl"
dim batch = 128, side = 12, down = side, across = side, pixel = side * side, classes = 6, found = 1
dim wide = 256, feature = 64, hidden = 256, latent = 32

# The student's weights w for the one view, the teacher's t for the other. A state has no gradient; it changes once a
# step, and here follows w.
layer twins[a, b](x[batch, a], y[batch, a], rate = 0.01) -> [batch, b], [batch, b] {
  param w[a, b] = normal(size[a] ** -0.5)
  state t[a, b] = normal(size[a] ** -0.5)
  x, y = x @a w, y @a t
  t = (1 - rate) * t + rate * stop(w)
  return x, y
}
# Mean 0 and variance 1 over the batch, so that no feature may die or be the same for all images.
fn spread[a](x[batch, a]) -> [batch, a] {
  u = x - mean[batch](x)
  return u * rsqrt(mean[batch](u * u) + 1e-5)
}
fn unit(x[batch, latent]) -> [batch, latent] { return x * rsqrt(sum[latent](x * x) + 1e-6) }

# The distance between prediction and teacher, 0 to 4; and the features.
model byol(one[batch, pixel], other[batch, pixel]) -> [batch], [batch, feature] {
  x, y = a:twins[pixel, wide](one, other)
  x, y = b:twins[wide, feature](relu(spread[wide](x)), relu(spread[wide](y)))
  features = relu(spread[feature](x))
  x, y = c:twins[feature, latent](features, relu(spread[feature](y)))
  guess = x |> up:linear[latent, hidden](std = 0.1) |> spread[hidden] |> relu |> down:linear[hidden, latent](std = 0.1)
  return 2 - 2 * sum[latent](unit(guess) * stop(unit(y))), features
}
model probe(x[batch, feature]) -> [batch, classes] { return linear[feature, classes](x) }

# A view of the same stripes: moved by any distance, and under noise.
fn view(angle[batch]) -> [batch, pixel] {
  x = sin(1.2 * (iota[across] * cos(angle) + iota[down] * sin(angle)) + uniform[batch](0, 6.2832))
  return (x + normal[batch, down, across](0, 0.7))[(down, across) -> pixel]
}
train {
  i32 label[batch] = synthetic(0, classes)
  angle = (label + uniform[batch](-0.3, 0.3)) * 3.1416 / classes
  far, features = byol(view(angle), view(angle))
  said = probe(stop(features))                      # no gradient passes `stop`: the labels teach the probe alone
  best, guess = topk[classes, found](said)
  accuracy, distance = mean[batch](f32(guess[found = 0] == label)), mean[batch](far)
  metrics = accuracy, distance
  loss = distance + mean[batch](xent[classes](said, label))
  optimizer = adamw(lr = warmup_cosine(3e-3, warmup = 20, total = 400), decay = 1e-4)
  steps = 400
}
cluster laptop { nodes = 1; gpus = 2; gpu = "cpu" }
parallel two on laptop {
  mesh data = 2
  shard batch on data             # means are still over the whole batch, and the teacher is one
}
