# SPDX-License-Identifier: Apache-2.0
# VQ-VAE (van den Oord et al., "Neural Discrete Representation Learning", 2017): the encoder's vectors are replaced by the nearest
# of 512 codes, with a straight-through gradient; codes move towards the vectors, which commit to their codes.
include "std.dsl"
dim batch = 128, place = 64, pixel = 48, hidden = 128, embed = 64, codes = 512, found = 1

model vqvae(x[batch, place, pixel]) -> [batch, place, pixel], [batch, place], [batch, place] {
  param code[codes, embed] = uniform(-0.5, 0.5)
  e = x |> e1:linear[pixel, hidden](std = 0.3) |> relu |> e2:linear[hidden, embed](std = 0.3)
  far = sum[embed](code * code) - 2 * (stop(e) @embed code)              # squared distance, less what all codes share
  least, nearest = topk[codes, found](-far)
  q = code[codes = nearest[found = 0]]
  y = (e + stop(q - e)) |> d1:linear[embed, hidden](std = 0.3) |> relu |> d2:linear[hidden, pixel](std = 0.3)
  return y, sum[embed]((stop(e) - q) ** 2), sum[embed]((e - stop(q)) ** 2)
}
train {
  x[batch, place, pixel] = synthetic(-1, 1)
  y, moves, commits = vqvae(x)
  loss = mean[batch, place, pixel]((y - x) ** 2) + mean[batch, place](moves) + 0.25 * mean[batch, place](commits)
  optimizer = adamw(lr = 2e-4)
  steps = 250_000
}
