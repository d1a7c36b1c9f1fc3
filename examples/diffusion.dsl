# SPDX-License-Identifier: Apache-2.0
# A diffusion model (Ho et al., "Denoising Diffusion Probabilistic Models", 2020) of points in the plane, which lie on a
# spiral. A network sees a point under noise, and how much noise it is, and says what the noise was. The points are made
# here, so it needs no files:
#
#   dtc examples/diffusion.dsl --parallel none -o out/diffusion.plan       (one rank; `--parallel four` for four)
#   dtrun out/diffusion.plan
#
# The loss begins at 1, that of a network that always says 0, and comes to 0.4 in a few seconds. It cannot come to 0:
# noise hides the points.
include "std.dsl"
dim batch = 256, plane = 2, layers = 4, embed = 64, ffn = 4 * embed, waves = 16, sides = 2

# Blocks of a transformer without the attention. The time reaches each of them as a shift.
layer block(x[batch, embed], time[batch, embed]) -> [batch, embed] {
  return norm:layernorm[embed](x + time) |> up:linear[embed, ffn] |> silu |> down:linear[ffn, embed]
}
model denoiser(x[batch, plane], time[batch]) -> [batch, plane] {
  angle = 6.2832 * time * 1.5 ** iota[waves]                      # slow and fast waves: a clock with many hands
  time = stack[sides](sin(angle), cos(angle)) |> clock:linear[(sides, waves), embed](std = 0.1)
  x = x |> into:linear[plane, embed](std = 0.5)
  repeat h in layers { x = x + block(x, time) }
  return last:layernorm[embed](x) |> out:linear[embed, plane]
}

# One and a half turns, scaled so that a coordinate has variance 1.
fn spiral(turn[batch]) -> [batch, plane] {
  angle = 9.4248 * turn
  return 2.4 * turn * stack[plane](cos(angle), sin(angle))
}
train {
  turn[batch] = synthetic(0, 1)
  point = spiral(turn)
  time, noise = uniform[batch](), normal[batch, plane]()
  keep = cos(1.5708 * time)                                       # from the point alone to noise alone
  said = denoiser(keep * point + sqrt(1 - keep * keep) * noise, time)
  loss = mean[batch, plane]((said - noise) ** 2)                  # 1 for a network that says 0
  optimizer = adamw(lr = warmup_cosine(3e-3, warmup = 100, total = 2000), decay = 0.01, decay_if = rank > 1, clip = 1.0)
  steps = 2000
}
cluster laptop { nodes = 1; gpus = 4; gpu = "cpu" }
parallel four on laptop {
  mesh data = 2, tensor = 2
  shard ffn on tensor             # the wide layers are split ...
  shard batch on data             # ... and so are the points
}
