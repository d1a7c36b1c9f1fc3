# SPDX-License-Identifier: Apache-2.0
# Schedules and optimizers whose gradients are known without a model (formulas.py): the gradient of
# an `s` is 1, that of a matrix w is (1 + row + 2 column) (w - 0.25). And a norm with running
# statistics, then a dropout, of the numbers (row + 1) (column + 1).
include "std.dsl"
dim batch = 2, rows = 4, cols = 6, slim = 3
fn bowl[r, c](w[r, c]) -> [] {
  weight = 1 + f32(iota[r]) + 2 * f32(iota[c])
  return 0.5 * sum[r, c](weight * (w - 0.25) ** 2)
}
model m(x[batch]) -> [batch] {
  param s_constant[], s_cosine[], s_linear[], s_steps[], s_sqrt[] = zeros
  param s_power[], s_wsd[], s_cycle[], s_range[] = zeros
  param adamw_w[rows, cols], plain_w[rows, cols], sgd_w[rows, cols] = uniform(-1, 1)
  param nesterov_w[rows, cols], lion_w[rows, cols], lamb_w[rows, cols] = uniform(-1, 1)
  param factor_w[rows, cols] = uniform(-1, 1)
  param muon_w[rows, cols], muon_t[rows, slim] = uniform(-1, 1)
  lines = s_constant + s_cosine + s_linear + s_steps + s_sqrt + s_power + s_wsd + s_cycle + s_range
  bowls = (bowl[rows, cols](adamw_w) + bowl[rows, cols](plain_w) + bowl[rows, cols](sgd_w)
           + bowl[rows, cols](nesterov_w) + bowl[rows, cols](lion_w) + bowl[rows, cols](lamb_w)
           + bowl[rows, cols](factor_w) + bowl[rows, cols](muon_w) + bowl[rows, slim](muon_t))
  return 0 * x + lines + bowls
}
model normed(x[batch]) -> [batch, rows, cols] {
  numbers = f32(iota[rows] + 1) * f32(iota[cols] + 1) + 0 * x
  return batchnorm[(batch, rows), cols](numbers, rate = 0.25) |> dropout(0.5)
}
train steps_of_all {
  x[batch] = synthetic(0, 1)
  loss = mean[batch](m(x))
  optimizer = sgd(lr = 0.1)
  cosine = sgd(lr = warmup_cosine(0.1, warmup = 5, total = 16, floor = 0.01), params = "s_cosine")
  linear = sgd(lr = warmup_linear(0.1, warmup = 5, total = 16, floor = 0.01), params = "s_linear")
  steps_of = sgd(lr = step_decay(0.1, every = 6, factor = 0.5), params = "s_steps")
  root = sgd(lr = inverse_sqrt(0.1, warmup = 4), params = "s_sqrt")
  power = sgd(lr = polynomial(0.1, warmup = 5, total = 16, power = 2, floor = 0.01),
              params = "s_power")
  stable = sgd(lr = wsd(0.1, warmup = 4, total = 18, decay = 7, floor = 0.02), params = "s_wsd")
  cycle = sgd(lr = one_cycle(0.1, total = 20), params = "s_cycle")
  range = sgd(lr = range_test(0.001, 1, total = 20), params = "s_range")
  adam = adamw(lr = 0.05, betas = (0.8, 0.95), eps = 1e-3, decay = 0.1, params = "adamw_w",
               own_norm = true, clip = 2)
  plain = adamw(lr = 0.05, params = "plain_w", decay = 0)
  velocity = sgd(lr = 0.002, momentum = 0.9, decay = 0.1, params = "sgd_w", own_norm = true,
                 clip = 9)
  ahead = sgd(lr = 0.002, momentum = 0.9, nesterov = true, params = "nesterov_w")
  signs = lion(lr = 0.01, betas = (0.6, 0.9), decay = 0.1, params = "lion_w")
  layers = lamb(lr = 0.02, decay = 0.1, params = "lamb_w")
  factored = adafactor(lr = 0.3, decay = 0.1, threshold = 0.5, params = "factor_w")
  turned = muon(lr = 0.02, momentum = 0.9, params = ("muon_w", "muon_t"))
  steps = 20
  save = every(1)
}
train norms {
  x[batch] = synthetic(0, 1)
  loss = mean[batch, rows, cols](normed(x) ** 2)
  optimizer = sgd(lr = 0)
  eval = every(3, steps = 1, data = synthetic(0, 1))
  steps = 3
}
