# train.dsl - learning-rate schedules, written in the language itself. Every program with a train block knows them.
#
# `step` is the number of the step, from 0; who calls a schedule does not give it. What is known when a step begins is
# computed then, once, in double precision. The comments above a function are its page of the manual: `dtc explain wsd`.

# The same learning rate at every step.
fn constant(base) -> [] { return base }

# Linear warm-up, then half a cosine down to a floor.
#   base     learning rate at the end of the warm-up
#   warmup   steps of linear warm-up
#   total    step at which the floor is reached
#   floor    learning rate from `total` on
fn warmup_cosine(step, base, warmup = 0, total, floor = 0) -> [] {
  part = min((step - warmup) / (total - warmup), 1)
  return if warmup >= total then refuse("the warm-up does not end before `total`")
         else if step < warmup then base * (step + 1) / warmup
         else floor + (base - floor) * 0.5 * (1 + cos(3.14159265358979323846 * part))
}

# Linear warm-up, then a line down to a floor.
#   base     learning rate at the end of the warm-up
#   warmup   steps of linear warm-up
#   total    step at which the floor is reached
#   floor    learning rate from `total` on
fn warmup_linear(step, base, warmup = 0, total, floor = 0) -> [] {
  part = min((step - warmup) / (total - warmup), 1)
  return if warmup >= total then refuse("the warm-up does not end before `total`")
         else if step < warmup then base * (step + 1) / warmup
         else base + (floor - base) * part
}

# Multiplied by a factor every so many steps.
#   base     learning rate of the first steps
#   every    steps between two reductions
#   factor   what the rate is multiplied by
fn step_decay(step, base, every, factor = 0.1) -> [] {
  return if every < 1 then refuse("`every` is at least 1") else base * factor ** floor(step / every)
}

# base / sqrt(max(step + 1, warmup)).
#   base     numerator
#   warmup   steps at the rate base / sqrt(warmup)
fn inverse_sqrt(step, base, warmup = 0) -> [] { return base / sqrt(max(step + 1, warmup)) }

# Linear warm-up, then down to a floor by a power of what is left (Chen et al., 2018; BERT with power 1).
#   base     learning rate at the end of the warm-up
#   warmup   steps of linear warm-up
#   total    step at which the floor is reached
#   power    1: a line, 2: a parabola
#   floor    learning rate from `total` on
fn polynomial(step, base, warmup = 0, total, power = 1, floor = 0) -> [] {
  left = max(1 - (step - warmup) / (total - warmup), 0)
  return if warmup >= total then refuse("the warm-up does not end before `total`")
         else if step < warmup then base * (step + 1) / warmup
         else floor + (base - floor) * left ** power
}

# Warm-up, stable, decay: a constant rate that falls in a line at the end (Hu et al., MiniCPM, 2024).
#   base     learning rate between warm-up and decay
#   warmup   steps of linear warm-up
#   total    step at which the floor is reached
#   decay    steps of the fall, the last before `total`
#   floor    learning rate from `total` on
fn wsd(step, base, warmup = 0, total, decay, floor = 0) -> [] {
  left = min(max((total - step) / decay, 0), 1)
  return if decay < 1 then refuse("`decay` is at least 1")
         else if warmup + decay > total then refuse("`warmup` and `decay` together take more steps than `total`")
         else if step < warmup then base * (step + 1) / warmup
         else floor + (base - floor) * left
}

# Up to a peak and down to nearly nothing, both along a cosine (Smith and Topin, 2018; as OneCycleLR in PyTorch).
#   base     learning rate at the peak
#   total    steps in all
#   rise     part of them before the peak
#   first    the first rate is base / first
#   last     the last rate is base / first / last
fn one_cycle(step, base, total, rise = 0.3, first = 25, last = 10000) -> [] {
  peak = rise * total - 1
  climb = (1 + cos(3.14159265358979323846 * step / peak)) / 2
  fall = (1 + cos(3.14159265358979323846 * min((step - peak) / (total - 1 - peak), 1))) / 2
  return if rise <= 0 or rise >= 1 then refuse("`rise` is between 0 and 1")
         else if peak <= 0 then refuse("`rise` of `total` is more than one step")
         else if step <= peak then base + (base / first - base) * climb
         else base / first / last + (base - base / first / last) * fall
}

# From a low rate to a high one, equal factors per step, to see where the loss begins to rise (Smith, 2015).
#   low      learning rate of the first step
#   high     learning rate of step `total`
#   total    steps in all
fn range_test(step, low, high, total) -> [] {
  return if low <= 0 or high <= 0 or total < 1 then refuse("`low` and `high` are above 0, `total` at least 1")
         else low * (high / low) ** (step / total)
}
