# Laws of the language: every result of a model is the difference of two ways to say the same thing, so all of them
# must be 0. The inputs are arbitrary numbers; the interpreter is the judge. test_lower.c takes the models in turn.
include "std.dsl"
dim batch = 3, seq = 6, kseq = seq, short = 3, embed = 8, heads = 2, head = 4, vocab = 5, two = 2
dim route = 4, choice = 2, slot = 3, layers = 4
axis tok, part, flat

fn gap(x, y) { return abs(x - y) }
fn mark(a, b) -> f32[] { return if a == b then f32(0) else f32(1) }

layer running(x[batch, seq, embed]) -> [batch, seq, embed] {
  state mu[embed] = ones
  c = if training then mean[batch, seq](x) else mu
  mu = 0.5 * mu + 0.5 * c
  return x - c
}
layer scaled(x[batch, seq, embed], by) -> [batch, seq, embed] {
  param g[embed] = ones
  return x * g * by
}
layer filling(x[batch, seq, embed], i32 kind[batch, seq] = 2, bool valid[batch, seq] = true, weight[embed] = 0.5) -> [batch, seq, embed] {
  return where(valid, x * weight * kind, 0) + sum[seq](kind) + sum[embed](weight)
}
layer applied(f, x[batch, seq, embed]) -> [batch, seq, embed] { return f(x) + f(x) }

model indexing(x[batch, seq, embed], i32 ids[batch, seq]) {
  param w[vocab, embed] = normal(1.0)
  rows = w[vocab = ids]
  same = sum[vocab](where(onehot[vocab](ids), w, 0))
  shifted = x[seq = iota[short] + 2]
  gathered = x[seq = min(iota[short] + 2, 100) + stop(0 * ids[batch = 0, seq = 0])]
  strided = x[seq = iota[short] * 2]
  by_hand = stack[short](x[seq = 0], x[seq = 2], x[seq = 4])
  over = x[seq = iota[short] + 4]                                # the last row is out of range and reads 0
  cut = stack[short](x[seq = 4], x[seq = 5], 0 * x[seq = 0])
  below = x[seq = iota[seq] - 1]
  before = where(iota[seq] > 0, x[seq = max(iota[seq] - 1, 0)], 0)
  diagonal = x[seq = iota[seq], batch = iota[seq] % 3]
  diagonal2 = sum[batch](where(iota[batch] == iota[seq] % 3, x, 0))
  aligned = x[seq = ids]                                         # ids and x share batch: aligned
  aligned2 = sum[kseq](where(ids == iota[kseq], x[seq -> kseq], 0))
  joint = x[batch = 1, seq = 2]
  return gap(rows, same), gap(shifted, gathered), gap(strided, by_hand), gap(over, cut), gap(below, before),
         gap(diagonal, diagonal2), gap(aligned, aligned2), gap(joint, x[seq = 2][batch = 1]),
         gap(x[seq = 1], sum[seq](where(iota[seq] == 1, x, 0)))
}

fn through_one[a](x[..., a]) -> [..., a] { return x[(a) -> flat][flat -> (a)] }   # axes have the extents of the argument
model shapes(x[batch, seq, embed]) {
  u = x[embed -> (heads, head)]
  picked = x[embed = iota[heads] * 4 + iota[head]]               # row-major, the first name major
  back = u[(heads, head) -> embed]
  a, b = unstack[two](x[embed -> (two, head)])
  again = stack[two](a, b)[(two, head) -> embed]
  swapped = u[heads -> two, head -> head][two -> heads]
  square = x[embed -> (two, heads, two2)]
  turned = square[two -> heads, heads -> two]
  r = x[seq -> tok]
  joined = concat[tok](r[tok = 0 .. 2], r[tok = 2 .. 6])[tok -> seq]
  wide2 = concat[tok](sum[batch](r), r)[tok = 6 .. 12][tok -> seq]  # the first part broadcasts
  grid = x[embed -> (tok = 2, part)]
  return gap(grid, through_one[(tok, part)](grid)), gap(u, picked), gap(x, back), gap(x, again), gap(u, swapped), gap(turned[heads = 1, two = 0, two2 = 1],
         square[two = 1, heads = 0, two2 = 1]), gap(x, joined), gap(x, wide2), gap(x[embed = 5], u[heads = 1, head = 1]),
         gap(x[embed -> (tok = 2, part)][tok = 1], x[embed -> (two, part = 4)][two = 1])
}
dim two2 = 2

model windows(x[batch, seq, embed]) {
  r = x[seq -> tok]
  w = window[tok, part](r, 3)
  w1 = w[part = 1][tok = iota[route]]
  padded = window[tok, part](r, 3, stride = 2, pad = (1, 0), fill = 7)
  p0 = padded[tok = 0, part = 0]
  kept = window[seq, part](x, 3, pad = 1)
  sums = sum[part](kept)
  by_hand = x + where(iota[seq] > 0, x[seq = iota[seq] - 1], 0) + where(iota[seq] < 5, x[seq = iota[seq] + 1], 0)
  best = max[part](window[seq, part](x, 2, pad = (1, 0), fill = -inf))
  best2 = where(iota[seq] > 0, max(x, x[seq = iota[seq] - 1]), x)
  return gap(w1, x[seq = iota[route] + 1]), gap(p0, 7 + 0 * p0), gap(padded[tok = 2, part = 1], x[seq = 4]), gap(sums, by_hand),
         gap(best, best2), mark(padded.tok, 3)
}

model sums(x[batch, seq, embed], i32 ids[batch, seq]) {
  c = cumsum[seq](x)
  c2 = sum[kseq](where(iota[kseq] <= iota[seq], x[seq -> kseq], 0))
  both = cumsum[seq, embed](x)
  total = sum[seq, embed](x)
  top, at = topk[embed, choice](x)
  found = x[embed = at]
  hot = onehot[vocab](ids)
  counted = sum[seq](hot)
  spread = scatter[seq](x, vocab = ids)
  spread2 = sum[seq](where(hot, x, 0))
  dropped = scatter[seq](x, slot = ids)                           # ids from 3 on fall outside
  dropped2 = sum[seq](where(iota[slot] == ids, x, 0))
  m = max[embed](x)
  n = -min[embed](-x)
  return gap(c, c2), gap(both[seq = 5, embed = 7], total), gap(top, found), gap(top[choice = 0], m), gap(m, n),
         gap(spread, spread2), gap(dropped, dropped2), gap(sum[vocab](counted), f32(6))
}

model arithmetic(x[batch, seq, embed], i32 ids[batch, seq]) {
  p = abs(x) + 1
  q = (ids - 2) // 3 * 3 + (ids - 2) % 3
  h = (ids - 2) / 4
  return gap(x ** 3, x * x * x), gap(p ** -2, 1 / (p * p)), gap(p ** 0.5, sqrt(p)), gap(p ** -0.5, rsqrt(p)), gap(q, ids - 2),
         gap(floor(h), (ids - 2) // 4), gap(x ** 0, 1 + 0 * x), gap(where(true, x, -inf), x), gap(max(x, 0) + min(x, 0), x),
         mark(7 // 2 + -7 // 2 + 7 % 3 + -7 % 3, 3 - 4 + 1 + 2)
}

model library(x[batch, seq, embed], y[batch, seq, embed], i32 ids[batch, seq]) {
  e = exp(x)
  s = e / sum[embed](e)
  z = x[embed -> (heads, head)]
  k = y[embed -> (heads, head), seq -> kseq]
  o = attend[seq, kseq, head](z, k, k, scale = 0.5, mask = iota[kseq] <= iota[seq])
  l = where(iota[kseq] <= iota[seq], exp((z @head k) * 0.5), 0)
  o2 = (l / sum[kseq](l)) @kseq k
  n = (x - mean[embed](x)) / sqrt(mean[embed]((x - mean[embed](x)) ** 2) + 1e-5)
  return gap(softmax[embed](x), s), gap(lse[embed](x), log(sum[embed](e))), gap(o, o2), gap(layernorm[embed](x), n),
         gap(rmsnorm[embed](x), x / sqrt(mean[embed](x * x) + 1e-5)), gap(xent[embed](x, ids), log(sum[embed](e)) - x[embed = ids]),
         gap(silu(x), x / (1 + exp(-x)))
}

# Ties of round go to the even neighbour; what log1p has lost by rounding 1 + x; sigmoid and softplus from both sides.
model numbers(x[batch, seq, embed]) {
  h = (iota[seq] - 3) * 0.5                                      # -1.5 -1 -0.5 0 0.5 1
  even = where(iota[seq] < 2, iota[seq] % 2 - 2, where(iota[seq] == 5, 1, 0))
  small = exp(-40 - abs(x))
  e = exp(x)
  far = 800 * (iota[seq] - 2)
  return gap(round(h), even), gap(round(x), floor(x + 0.5)), gap(round(2 * iota[seq]), 2 * iota[seq]),
         gap(log1p(small) / small, 1), gap(log1p(e), log(1 + e)), gap(sigmoid(x), e / (1 + e)),
         gap(softplus(x), log(1 + e)), gap(softplus(-40 - abs(x)) / small, 1), gap(silu(far), max(far, 0))
}

model structure(x[batch, seq, embed]) {
  y, total, n = x, f32(0), 0
  repeat h in layers {
    y = y * 0.5 + h
    total = total + f32(h)
    n = n + 1
  }
  z = x
  repeat s in (0, 1, 2, 3) { z = z * 0.5 + s }
  f = shared:scaled
  tied = f(x, 2.0) + f(x, 3.0)
  repeat d in layers { tied = tied + f(x, 1.0) }
  g = other:scaled
  twice = applied(h2, x)
  d = running(x)
  k = x |> a:scaled(by = 2.0) |> b:scaled(0.5)
  i32 whole[batch] = 0
  f32 filled[batch] = 0.5
  bool odd[batch] = false
  repeat m in layers { whole = whole + m; odd = not odd; filled = filled + 0.5 }
  half = fill:filling(x, valid = iota[seq] >= 3 and iota[batch] >= 0)
  return gap(f32(whole) + filled + f32(odd), f32(whole) * 0 + 8.5), gap(filling(x), x + 12 + 4), gap(half, where(iota[seq] >= 3, x, 0) + 16),
         gap(y, z), mark(layers, 4) + abs(total - 6), gap(n, f32(4)), gap(tied, 9 * x), gap(twice, 4 * x), gap(d, x - 1), gap(k, x)
}
fn h2(x[...]) -> [...] { return 2 * x }
