# SPDX-License-Identifier: Apache-2.0
# Several losses in turn (losses.py). `gan`: a generator that keeps a state, which the evaluation of both losses assigns, and a
# discriminator with dropout; `by_hand`: two numbers whose steps can be written down; `draws`: what is drawn for each loss.
include "std.dsl"
dim batch = 16, noise = 8, hidden = 8, wide = 12, pixel = 12, layers = 2, one = 1

layer generator(z[batch, noise]) -> [batch, pixel] {
  state level[hidden] = zeros
  h = z |> l1:linear[noise, hidden](std = 0.5)
  before = level
  level = 0.9 * before + 0.1 * mean[batch](h)
  h = h - before
  repeat k in layers { h = h + tanh(h |> up:linear[hidden, wide] |> relu |> down:linear[wide, hidden]) }
  return tanh(h |> l3:linear[hidden, pixel](std = 0.5))
}
layer discriminator(x[batch, pixel]) -> [batch] {
  h = x |> l1:linear[pixel, hidden](std = 0.5)
  return (dropout(max(h, 0.2 * h), 0.2) |> l3:linear[hidden, one](std = 0.5))[one = 0]
}
fn softplus0(x[...]) -> [...] { return log(1 + exp(-abs(x))) + max(x, 0) }
model gan(z[batch, noise], real[batch, pixel]) -> [batch], [batch] {
  d = d:discriminator
  return d(generator(z)), d(real)
}
train gan {
  real[batch, pixel] = synthetic(-1, 1)
  of_fake, of_real = gan(normal[batch, noise](0, 1), real)
  apart = mean[batch](softplus0(-of_real) + softplus0(of_fake))
  fooled = mean[batch](softplus0(-of_fake))
  right = mean[batch](f32(of_real > of_fake))
  metrics = right
  judge = adamw(lr = 2e-3, betas = (0.5, 0.999), decay = 0, clip = 1.0, params = "d.*", loss = apart)
  forger = adamw(lr = warmup_cosine(1e-2, warmup = 2, total = 20), params = ("generator.l1.*", "generator.k.*"), loss = fooled, every = 2)
  tables = sgd(lr = 0.1, params = "generator.l3.*", loss = fooled, every = 2)
  eval = every(3, steps = 2, data = synthetic(-1, 1))
  save = every(3)
  steps = 8
}

fn counted(p[...], g[...], updates, step, lr) -> [...] {
  state sum[...] = zeros
  next = sum + g
  sum = next
  return p - lr * next / updates - 0.001 * step
}
model numbers(x[batch]) -> [], [] {
  param w[one] = 1
  param v[one] = 2
  return w[one = 0], v[one = 0]
}
train by_hand {
  x[batch] = synthetic(0, 1)
  w, v = numbers(x)
  near = (w - 3 * v) * (w - 3 * v)
  far = w * v + v * v
  first = counted(lr = 0.01, params = "w", loss = near)
  second = counted(lr = 0.02, params = "v", loss = far, every = 3)
  steps = 10
}
# The first of these losses alone; the same under another name.
train first_alone {
  x[batch] = synthetic(0, 1)
  w, v = numbers(x)
  near = (w - 3 * v) * (w - 3 * v)
  first = counted(lr = 0.01, loss = near)
  steps = 10
}
train renamed {
  x[batch] = synthetic(0, 1)
  w, v = numbers(x)
  close = (w - 3 * v) * (w - 3 * v)
  first = counted(lr = 0.01, loss = close)
  steps = 11
}
train draws {
  x[batch] = synthetic(0, 1)
  z = uniform[batch](0, 1)
  w, v = numbers(x)
  loss = mean[batch](z) + 0 * w
  other = mean[batch](z) + 0 * v
  optimizer = sgd(lr = 0, params = "w")
  second = sgd(lr = 0, params = "v", loss = other)
  steps = 4
}
train alone {
  x[batch] = synthetic(0, 1)
  z = uniform[batch](0, 1)
  w, v = numbers(x)
  loss = mean[batch](z) + 0 * w
  optimizer = sgd(lr = 0)
  steps = 4
}
# The second loss of step 2 is not finite, when the first has had its update.
fn climb(p[...], g[...], lr) -> [...] { return p + lr * g }
train infinite {
  x[batch] = synthetic(0, 1)
  w, v = numbers(x)
  good = w * w
  bad = v / max(0.05 - 0.01 * w, 0)
  first = climb(lr = 10, params = "w", loss = good)
  second = sgd(lr = 0.001, params = "v", loss = bad, every = 2)
  steps = 5
}

cluster laptop { gpus = 2; gpu = "cpu" }
cluster server { gpus = 4; gpu = "cpu" }
parallel data on laptop { mesh data = 2; shard batch on data; micro batch = 2 }
parallel zero1 on laptop { mesh data = 2; shard batch on data; zero 1 on data }
parallel zero2 on server { mesh data = 2, tensor = 2; shard wide on tensor; shard batch on data; micro batch = 2; zero 2 on data }
parallel zero3 on server { mesh data = 4; shard batch on data; micro batch = 2; zero 3 on data; remat k }
