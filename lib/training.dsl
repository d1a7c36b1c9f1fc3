# training.dsl - optimizers and learning-rate schedules, written in the language itself. Every program with a train block
# knows them.
#
# An optimizer is evaluated for each parameter p, with its gradient g, as f32[...]; it returns what p becomes, and its
# states belong to p. Axis parameters stand for the axes of p's declaration: the last for the last, and so on, the first
# for all that are left, perhaps none; `...` is then the loops that p is in, each of whose iterations has a parameter of its
# own. `updates` is the number of the update, from 1, `grad_norm` the norm of all gradients together; who
# calls an optimizer gives neither. `rank` is the number of axes in p's declaration.
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

# The gradient, shorter if all gradients together are longer than `clip`; 0: as it is.
fn clipped(g[...], grad_norm, clip) -> [...] {
  most = if clip >= 0 then clip else refuse("`clip` is at least 0")
  return if most == 0 then g else g * min(most / (grad_norm + 1e-6), 1)
}

# Adam with decoupled weight decay (Loshchilov and Hutter, 2019).
#   lr         learning rate: a number or a schedule; must be given
#   betas      decay rates of the two moments, each in [0, 1)
#   eps        added to the square root of the second moment
#   decay      weight decay
#   decay_if   constant condition on `rank`: which parameters decay
#   clip       largest global norm of the gradient; 0 = no clipping
fn adamw(p[...], g[...], updates, grad_norm, lr, betas = (0.9, 0.999), eps = 1e-8, decay = 0.01, decay_if = true,
         clip = 0) -> [...] {
  state moment1[...] = zeros
  state moment2[...] = zeros
  beta1, beta2 = betas
  fine = if beta1 >= 0 and beta1 < 1 and beta2 >= 0 and beta2 < 1 then eps else refuse("`betas` are in [0, 1)")
  small = if fine > 0 then eps else refuse("`eps` is above 0")
  shrink = if decay >= 0 then decay else refuse("`decay` is at least 0")
  d = clipped(g, grad_norm, clip)
  m = beta1 * moment1 + (1 - beta1) * d
  v = beta2 * moment2 + (1 - beta2) * (d * d)
  moment1 = m
  moment2 = v
  bias1 = 1 / (1 - beta1 ** updates)
  bias2 = 1 / (1 - beta2 ** updates)
  change = m * bias1 / (sqrt(v * bias2) + small)
  return p - lr * (if decay_if and shrink > 0 then change + shrink * p else change)
}

# Stochastic gradient descent with momentum.
#   lr         learning rate: a number or a schedule; must be given
#   momentum   factor of the velocity; 0 = none
#   decay      weight decay, added to the gradient
#   decay_if   constant condition on `rank`: which parameters decay
#   clip       largest global norm of the gradient; 0 = no clipping
#   nesterov   look ahead along the velocity (Nesterov, 1983; as in PyTorch)
fn sgd(p[...], g[...], grad_norm, lr, momentum = 0, decay = 0, decay_if = true, clip = 0, nesterov = false) -> [...] {
  factor = if momentum >= 0 and momentum <= 1 then momentum else refuse("`momentum` is between 0 and 1")
  shrink = if decay >= 0 then decay else refuse("`decay` is at least 0")
  short = clipped(g, grad_norm, clip)
  d = if decay_if and shrink > 0 then short + shrink * p else short
  if momentum == 0 { return p - lr * d }
  else {
    state moment1[...] = zeros
    v = factor * moment1 + d
    moment1 = v
    return p - lr * (if nesterov then d + factor * v else v)
  }
}

# The sign of a moment, each step of one length (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023).
#   lr         learning rate: a number or a schedule; a third to a tenth of Adam's; must be given
#   betas      what the step takes of the moment, and what the moment keeps, each in [0, 1)
#   decay      weight decay
#   decay_if   constant condition on `rank`: which parameters decay
#   clip       largest global norm of the gradient; 0 = no clipping
fn lion(p[...], g[...], grad_norm, lr, betas = (0.9, 0.99), decay = 0.0, decay_if = true, clip = 0) -> [...] {
  state moment1[...] = zeros
  beta1, beta2 = betas
  fine = if beta1 >= 0 and beta1 < 1 and beta2 >= 0 and beta2 < 1 then decay else refuse("`betas` are in [0, 1)")
  shrink = if fine >= 0 then decay else refuse("`decay` is at least 0")
  d = clipped(g, grad_norm, clip)
  u = beta1 * moment1 + (1 - beta1) * d
  moment1 = beta2 * moment1 + (1 - beta2) * d
  way = where(u > 0, 1.0, where(u < 0, -1.0, 0.0))
  return p - lr * (if decay_if and shrink > 0 then way + shrink * p else way)
}

# Adam, each parameter's step as long as a part of the parameter (You et al., Large Batch Optimization, 2020).
#   lr         learning rate: a number or a schedule; what a step is of a parameter's norm; must be given
#   betas      decay rates of the two moments, each in [0, 1)
#   eps        added to the square root of the second moment
#   decay      weight decay
#   decay_if   constant condition on `rank`: which parameters decay
#   clip       largest global norm of the gradient; 0 = no clipping
fn lamb[all](p[..., all], g[..., all], updates, grad_norm, lr, betas = (0.9, 0.999), eps = 1e-6, decay = 0.01,
             decay_if = true, clip = 0) -> [..., all] {
  state moment1[..., all] = zeros
  state moment2[..., all] = zeros
  beta1, beta2 = betas
  fine = if beta1 >= 0 and beta1 < 1 and beta2 >= 0 and beta2 < 1 then eps else refuse("`betas` are in [0, 1)")
  small = if fine > 0 then eps else refuse("`eps` is above 0")
  shrink = if decay >= 0 then decay else refuse("`decay` is at least 0")
  d = clipped(g, grad_norm, clip)
  m = beta1 * moment1 + (1 - beta1) * d
  v = beta2 * moment2 + (1 - beta2) * (d * d)
  moment1 = m
  moment2 = v
  bias1 = 1 / (1 - beta1 ** updates)
  bias2 = 1 / (1 - beta2 ** updates)
  change = m * bias1 / (sqrt(v * bias2) + small)
  way = if decay_if and shrink > 0 then change + shrink * p else change
  long = sqrt(sum[all](p * p))
  far = sqrt(sum[all](way * way))
  trust = where(long > 0 and far > 0, long / far, 1)
  return p - lr * trust * way
}

# Second moments of a matrix as those of its rows and columns (Shazeer and Stern, Adafactor, 2018; as in PyTorch). Of more
# axes than two the last two are rows and columns, of fewer each element has its own.
#   lr            learning rate: a number or a schedule; at most 1 / sqrt(update) is taken; must be given
#   beta2_decay   the moments keep 1 - update ** beta2_decay
#   eps           least root of a second moment, and least root mean square of a parameter for the length of a step
#   threshold     largest root mean square of a step before the rate
#   decay         weight decay
#   decay_if      constant condition on `rank`: which parameters decay
#   clip          largest global norm of the gradient; 0 = no clipping
fn adafactor[front, rows, cols](p[..., front, rows, cols], g[..., front, rows, cols], updates, grad_norm, lr,
                                beta2_decay = -0.8, eps = (1.1920928955078125e-7, 1e-3), threshold = 1.0, decay = 0,
                                decay_if = true, clip = 0) -> [..., front, rows, cols] {
  n = size[front, rows, cols]
  least, shortest = eps
  fine = if least > 0 and shortest > 0 and threshold > 0 then decay
         else refuse("`eps` and `threshold` are above 0")
  shrink = if fine >= 0 then decay else refuse("`decay` is at least 0")
  new = if beta2_decay <= 0 then updates ** beta2_decay else refuse("`beta2_decay` is at most 0")
  rate = min(lr, 1 / sqrt(updates)) * max(sqrt(sum[front, rows, cols](p * p) / n), shortest)
  d = clipped(g, grad_norm, clip)
  squares = d * d
  if rank >= 2 {
    state row[..., front, rows] = zeros
    state col[..., front, cols] = zeros
    r = row + (sum[cols](squares) / size[cols] - row) * new
    c = col + (sum[rows](squares) / size[rows] - col) * new
    row = r
    col = c
    v = r / max(sum[rows](r) / size[rows], least) * c  # lint: allow L0301 - the outer product is meant
  }
  else {
    state moment[..., front, rows, cols] = zeros
    v = moment + (squares - moment) * new
    moment = v
  }
  way = d * rsqrt(max(v, least * least))
  long = max(sqrt(sum[front, rows, cols](way * way) / n) / threshold, 1)
  kept = if decay_if and shrink > 0 then p * (1 - lr * shrink) else p
  return kept - rate / long * way
}

axis muon_in, muon_out, muon_one, muon_two # of a matrix, and of its smaller side once more

# What is nearly the orthogonal matrix next to x, whose singular values are at most 1: five steps of an iteration.
fn orthogonal[short, long, one, two](x[..., short, long], coefficients) -> [..., short, long] {
  a, b, c = coefficients
  repeat i in (1, 2, 3, 4, 5) {
    gram = x @long x[short -> one]
    more = b * gram + c * (gram[one -> two] @two gram[short -> two])
    x = a * x + more @one x[short -> one]
  }
  return x
}

# For matrices: the momentum, made nearly orthogonal by Newton-Schulz steps (Jordan et al., Muon, 2024; as in PyTorch). All
# others need an optimizer of their own: `rest = adamw(lr = 3e-4, params = ("*.b0", "wte"))`.
#   lr             learning rate: a number or a schedule; must be given
#   momentum       what the momentum keeps, in [0, 1)
#   nesterov       look ahead along the momentum
#   decay          weight decay
#   eps            least norm by which the momentum is divided
#   coefficients   of the iteration x = a x + (b x x' + c (x x')^2) x
#   clip           largest global norm of the gradient; 0 = no clipping
# The rate is multiplied by sqrt(max(1, n / m)) for a matrix declared [m, n], from m values to n.
fn muon[rows, cols](p[..., rows, cols], g[..., rows, cols], grad_norm, lr, momentum = 0.95, nesterov = true, decay = 0.1,
                    eps = 1e-7, coefficients = (3.4445, -4.775, 2.0315), clip = 0) -> [..., rows, cols] {
  state moment1[..., rows, cols] = zeros
  slope = if rank == 2 then g else refuse("`muon` is for matrices; give others an optimizer with `params`")
  factor = if momentum >= 0 and momentum < 1 then momentum else refuse("`momentum` is in [0, 1)")
  small = if eps > 0 then eps else refuse("`eps` is above 0")
  shrink = if decay >= 0 then decay else refuse("`decay` is at least 0")
  d = clipped(slope, grad_norm, clip)
  m = factor * moment1 + (1 - factor) * d
  moment1 = m
  u = (if nesterov then factor * m + (1 - factor) * d else m)[rows -> muon_in, cols -> muon_out]
  x = u / max(sqrt(sum[muon_in, muon_out](u * u)), small)
  y = if size[rows] > size[cols] then orthogonal[muon_out, muon_in, muon_one, muon_two](x, coefficients)
      else orthogonal[muon_in, muon_out, muon_one, muon_two](x, coefficients)
  way = y[muon_in -> rows, muon_out -> cols]
  kept = if shrink > 0 then p * (1 - lr * shrink) else p
  return kept - lr * sqrt(max(size[cols] / size[rows], 1)) * way
}

# Averages of parameters over updates, which evaluation reads in their place (`average = ema(0.999)`). The average begins as
# the parameter; p is what the parameter has become in an update.

# Exponential moving average (Polyak and Juditsky, 1992).
#   decay   what the average keeps in each update, in [0, 1)
fn ema(average[...], p[...], decay = 0.999) -> [...] {
  kept = if decay >= 0 and decay < 1 then decay else refuse("`decay` is in [0, 1)")
  return kept * average + (1 - kept) * p
}

# The mean over all updates after number `from`; until then the parameter itself (Izmailov et al., SWA, 2018).
#   from   updates that are left out
fn swa(average[...], p[...], updates, from = 0) -> [...] {
  first = if from >= 0 then from else refuse("`from` is at least 0")
  part = 1 / max(updates - first, 1)
  return (1 - part) * average + part * p
}

# ---- what `compress` lines name ----

axis received # the ranks, where one of them has what all have sent

# NaN if an element of x is NaN or infinite, else 0: so all ranks see that, and the step is skipped. A maximum would do if
# ranks did not share x; that of NCCL drops a NaN of another rank, which a sum cannot.
fn not_finite[all](x[..., all]) -> [...] { return sum[all](0 * x) }

# Each rank sends its term in 8 bits, with a scale for the parameter, and adds what it rounded away
# to its next term (Seide et al., 1-bit stochastic gradient descent, 2014; Karimireddy et al., 2019).
fn int8[worker, all](terms[..., worker, all]) -> [..., all] {
  state error[..., worker, all] = zeros
  wanted = terms + error
  scale = max(max[all](abs(wanted)) / 127 + not_finite[all](wanted), 1e-30)
  code = u8(floor(wanted / scale + 0.5) + 128)
  error = wanted - (f32(code) - 128) * scale
  return sum[received]((f32(code[worker -> received]) - 128) * scale[worker -> received])
}

# The same in floats of 8 bits, 4 of them an exponent (Micikevicius et al., FP8 formats for deep learning, 2022; Peng
# et al., FP8-LM, 2023): small elements keep their first digits.
fn fp8[worker, all](terms[..., worker, all]) -> [..., all] {
  state error[..., worker, all] = zeros
  wanted = terms + error
  scale = max(max[all](abs(wanted)) / 448 + not_finite[all](wanted), 1e-30)
  size_of = min(abs(wanted) / scale, 448)
  power, below = 2 ** -6, 0
  repeat i in (-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8) {
    power = where(size_of >= 2 ** i, 2 ** i, power)
    below = below + where(size_of >= 2 ** i, 8, 0)
  }
  digits = floor(size_of / power * 8 + 0.5)
  error = wanted - where(wanted < 0, -1, 1) * power * digits / 8 * scale
  got = f32(u8(below + digits + where(wanted < 0, 128, 0))[worker -> received])
  steps = got % 128
  n = max(floor(steps / 8) - 1, 0)
  unit = 2 ** -9
  repeat k in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14) { unit = where(n >= k, 2 ** (k - 9), unit) }
  return sum[received](where(got < 128, 1, -1) * unit * (steps - 8 * n) * scale[worker -> received])
}

dim bit = 8          # of a byte
axis element, place  # of a parameter

# The same in one bit: signs, eight in a byte, and the mean of what they stand for (Karimireddy et al., Error feedback
# fixes SignSGD, 2019).
fn one_bit[worker, all](terms[..., worker, all]) -> [..., all] {
  state error[..., worker, all] = zeros
  n = size[all]
  wanted = terms + error
  scale = sum[all](abs(wanted)) / n
  up = where(wanted >= 0, 1.0, 0.0)
  code = u8(sum[bit](window[element, bit](up[(all) -> element], 8, stride = 8, pad = (0, (8 - n % 8) % 8)) * 2 ** f32(iota[bit])))
  error = wanted - (2 * up - 1) * scale
  all_up = floor(f32(code[worker -> received]) / 2 ** f32(iota[bit])) % 2
  back = all_up[(element, bit) -> place][place = 0 .. n][place -> (all)]
  return sum[received]((2 * back - 1) * scale[worker -> received])
}

axis part            # of the bytes of a parameter

# Signs in both directions: each rank averages a part of what all ranks send, and sends the signs of its part and one scale
# for all parts. It keeps an error for what it sends first, and one for its part (Tang et al., DoubleSqueeze, 2019).
fn one_bit_twice[worker, all](terms[..., worker, all]) -> [..., all] {
  n = size[all]
  each = ((n + 7) // 8 + size[worker] - 1) // size[worker] # bytes of a part
  state error[..., worker, all] = zeros
  state error_of_part[..., worker, part = each, bit] = zeros
  wanted = terms + error
  scale = sum[all](abs(wanted)) / size[all]
  up = where(wanted >= 0, 1.0, 0.0)
  error = wanted - (2 * up - 1) * scale
  bits = window[element, bit](up[(all) -> element], 8, stride = 8, pad = (0, size[worker] * each * 8 - n))
  code = u8(sum[bit](bits * 2 ** f32(iota[bit])))[worker -> received, element -> (worker, part = each)]
  all_up = floor(f32(code) / 2 ** f32(iota[bit])) % 2
  given = sum[received]((2 * all_up - 1) * scale[worker -> received])
  counts = numbered[worker, part](given) < n # others fill the last parts up
  total = where(counts, given, 0) + error_of_part
  scale_of_all = sum[worker, part, bit](abs(total)) / n
  up_too = where(total >= 0, 1.0, 0.0)
  error_of_part = where(counts, total - (2 * up_too - 1) * scale_of_all, 0)
  got = u8(sum[bit](up_too * 2 ** f32(iota[bit])))[worker -> received]
  back = (floor(f32(got) / 2 ** f32(iota[bit])) % 2)[(received, part, bit) -> place][place = 0 .. n][place -> (all)]
  return (2 * back - 1) * scale_of_all
}

# Which elements of a parameter the bits of all parts stand for.
fn numbered[worker, part](like[..., worker, part]) -> i32 [worker, part, bit] {
  return (iota[worker] * size[part] + iota[part]) * 8 + iota[bit]
}

axis chosen          # some elements of a parameter

# The largest elements of x as `few` has room for, and where they are.
fn largest[element, chosen](x[..., element], few[chosen]) -> [..., chosen], i32 [..., chosen] {
  return topk[element, chosen](x)
}

# The elements x at these places among zeros, of which there are as many as `like` has elements.
fn among_zeros[element, chosen](x[..., chosen], i32 at[..., chosen], like[element]) -> [..., element] {
  return scatter[chosen](x, element = at)
}

# Each rank sends the largest elements of its term and where they are, and adds all others to its next term (Stich et al.,
# Sparsified SGD with memory, 2018).
#   fraction   of the elements of a parameter that are sent; at least one is
fn top_k[worker, all](terms[..., worker, all], fraction = 0.01) -> [..., all] {
  state error[..., worker, all] = zeros
  part = if fraction > 0 and fraction <= 1 then fraction else refuse("`fraction` is above 0 and at most 1")
  few[chosen = max(floor(size[all] * part), 1)] = 0.0
  room[element = size[all]] = 0.0
  wanted = (terms + error)[(all) -> element]
  _, at = largest[element, chosen](abs(wanted), few)
  sent = wanted[element = at]
  error = (wanted - among_zeros[element, chosen](sent, at, room))[element -> (all)]
  got = among_zeros[element, chosen](sent[worker -> received], at[worker -> received], room)
  return sum[received](got)[element -> (all)]
}

# The same of elements that are drawn anew in each step, alike on all ranks, so that values alone are sent.
#   fraction   of the elements of a parameter that are sent; at least one is
fn random_k[worker, all](terms[..., worker, all], fraction = 0.01) -> [..., all] {
  state error[..., worker, all] = zeros
  part = if fraction > 0 and fraction <= 1 then fraction else refuse("`fraction` is above 0 and at most 1")
  few[chosen = max(floor(size[all] * part), 1)] = 0.0
  room[element = size[all]] = 0.0
  _, at = largest[element, chosen](uniform[all](0, 1)[(all) -> element], few)
  wanted = (terms + error)[(all) -> element]
  sent = wanted[element = at] + not_finite[element](wanted)
  error = (wanted - among_zeros[element, chosen](sent, at, room))[element -> (all)]
  return among_zeros[element, chosen](sum[worker](sent), at, room)[element -> (all)]
}
