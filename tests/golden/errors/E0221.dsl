# ---- layer
dim batch = 4
layer scaled(x[batch]) -> [batch] {
  param w[batch] = ones
  return x * w
  gradient(dy) { return dy * w }
}
model m(x[batch]) -> [batch] { return s:scaled(x) }
train { x[batch] = synthetic(0, 1); loss = sum[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- counts
dim batch = 4
fn cube(x[...]) -> [...] {
  return x * x * x
  gradient(dy, dz) { return 3 * x * x * dy }
}
fn times(x[...], y[...]) -> [...] {
  return x * y
  gradient(dy) { return dy * y }
}
model m(x[batch]) -> [batch] {
  param w[batch] = ones
  return cube(times(x, w))
}
train { x[batch] = synthetic(0, 1); loss = sum[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- twice
dim batch = 4
fn cube(x[...]) -> [...] {
  return x * x * x
  gradient(dy) { return 3 * x * x * dy }
  surrogate(dy) { return dy }
}
model m(x[batch]) -> [batch] {
  param w[batch] = ones
  return cube(x * w)
}
train { x[batch] = synthetic(0, 1); loss = sum[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- draws
dim batch = 4
fn noisy(x[...]) -> [...] {
  return x
  surrogate(dy) { return dropout(dy, 0.5) }
}
model m(x[batch]) -> [batch] {
  param w[batch] = ones
  return noisy(x * w)
}
train { x[batch] = synthetic(0, 1); loss = sum[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- types
dim batch = 4, n = 3
fn cube(x[...]) -> [...] {
  return x * x * x
  gradient(dy) { return iota[batch] }
}
fn half(x[...]) -> [...] {
  return x / 2
  gradient(f32 dy) { return dy / 2 }
}
model m(x[batch, n]) -> [batch] {
  param w[batch] = ones
  return sum[n](cube(x * w) + half(x * w))
}
train { x[batch, n] = synthetic(0, 1); loss = sum[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- function
dim batch = 4
fn twice(f, x[...]) -> [...] {
  return f(f(x))
  gradient(dy) { return (0, dy) }
}
fn cube(x[...]) -> [...] { return x * x * x }
model m(x[batch]) -> [batch] {
  param w[batch] = ones
  return twice(cube, x * w)
}
train { x[batch] = synthetic(0, 1); loss = sum[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- extent
dim batch = 4
axis n
fn first[c](x[..., c]) -> [...] {
  return x[c = 0]
  gradient(dy) { return x[c = 0 .. 2] * dy }
}
model m(x[batch, n = 3]) -> [batch] {
  param w[batch] = ones
  return first[n](x * w)
}
train { x[batch, n = 3] = synthetic(0, 1); loss = sum[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- loop
dim batch = 4, n = 3
fn power(x[...]) -> [...] {
  y = x
  repeat i in n {
    y = y * x
    gradient(dy) { return dy }
  }
  return y
}
model m(x[batch]) -> [batch] {
  param w[batch] = ones
  return power(x * w)
}
train { x[batch] = synthetic(0, 1); loss = sum[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- parts
dim batch = 4, n = 3
fn total[t](x[..., t]) -> [...] {
  return sum[t](x)
  stream[t] { return (sum[t](x), x) }
  finish(s, y) { return s }
}
fn largest[t](x[..., t]) -> [...] {
  return max[t](x)
  stream[t] { return max[t](x) }
  merge(m) { return m }
}
fn average[t](x[..., t]) -> [...] {
  return sum[t](x) / 3
  stream[t] { return (sum[t](x), sum[t](x)) }
}
fn spread[t](x[..., t]) -> [..., t] {
  return x - sum[t](x)
  stream[t] { return sum[t](x) }
}
fn sorted[t](x[..., t]) -> [...] {
  return sum[t](x)
  stream[t] { return sum[t](x) }
  merge(a, b) { return cumsum[batch](a) + b }
}
fn late[t](x[..., t]) -> [...] {
  return sum[t](x)
  stream[t] { return sum[t](x) }
  finish(s) { return s + max[t](x) }
}
fn alone[t](x[..., t]) -> [...] {
  return sum[t](x)
  merge(a, b) { return a + b }
}
fn brackets[t](x[..., t]) -> [...] {
  return sum[t](x)
  stream(t) { return sum[t](x) }
}
model m(x[batch, n]) -> [batch] {
  param w[batch, n] = ones
  a = total[n](x * w) + largest[n](x * w) + average[n](x * w) + sorted[n](x * w) + late[n](x * w)
  return a + alone[n](x * w) + brackets[n](x * w) + sum[n](spread[n](x * w))
}
train { x[batch, n] = synthetic(0, 1); loss = sum[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- inside
dim batch = 4, n = 3
fn total[t](x[..., t]) -> [...] {
  return sum[t](x)
  stream[t] {
    return sum[t](x)
    gradient(dy) { return dy }
  }
}
fn both(x[...], y[...]) -> [...], [...] {
  return x, y
  gradient(a, a) { return a, a }
}
fn pair(p) -> [batch, n] {
  x, y = p
  return x * y
  surrogate(dy) { return 0 }
}
model m(x[batch, n]) -> [batch] {
  param w[batch, n] = ones
  a, b = both(x * w, x)
  return total[n](x * w) + sum[n](pair((x, w)) + a + b)
}
train { x[batch, n] = synthetic(0, 1); loss = sum[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- early
dim batch = 4, n = 3
fn total[t](x[..., t]) -> [...] {
  gradient(dy) { return dy }
  stream[t] { return sum[t](x) }
  return sum[t](x)
}
model m(x[batch, n]) -> [batch] {
  param w[batch, n] = ones
  return total[n](x * w)
}
train { x[batch, n] = synthetic(0, 1); loss = sum[batch](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- scan
dim batch = 4, n = 6
fn unordered[t](x[..., t]) -> [..., t] {
  return cumsum[t](x)
  stream[t] { return sum[t](x) }
  emit(h) { return h + cumsum[t](x) }
}
fn finished[t](x[..., t]) -> [..., t] {
  return cumsum[t](x)
  scan[t] { return sum[t](x) }
  emit(h) { return h + cumsum[t](x) }
  finish(h) { return h }
}
fn stated[t](x[..., t]) -> [..., t] {
  return cumsum[t](x)
  scan[t] { return sum[t](x) }
  emit(h) { return h + cumsum[t](x) }
  gradient(dy) { return dy }
}
fn unbegun[t](x[..., t]) -> [..., t] {
  return cumsum[t](x)
  scan[t] { return sum[t](x) }
  merge(h, g) { return h + g }
  emit(h) { return h + cumsum[t](x) }
}
fn summed[t](x[..., t]) -> [...] {
  return sum[t](x)
  scan[t] { return sum[t](x) }
  emit(h) { return h }
}
fn short[t](x[..., t]) -> [..., t] {
  return cumsum[t](x)
  scan[t = 0] { return sum[t](x) }
  emit(h) { return h + cumsum[t](x) }
}
fn parted[t](x[..., t]) -> [..., t] {
  return cumsum[t](x)
  scan[t = 2] { return x }
  emit(h) { return h }
}
fn named[t](x[..., t]) -> [..., t] {
  return cumsum[t](x)
  scan[t = 2] { return sum[t](x) }
  emit(h, g) { return h + cumsum[t](x) }
}
fn lost[t](x[..., t]) -> [..., t] {
  return cumsum[t](x)
  scan[t = 2] { return sum[t](x) }
  emit(h) { return iota[t] }
}
fn merged[t](x[..., t]) -> [..., t] { # no block as long as this one says, but what it says is looked at
  return cumsum[t](x)
  scan[t = 64] { return sum[t](x) }
  neutral() { return 0 }
  merge(h, g) { return h + x }
  emit(h) { return h + cumsum[t](x) }
}
fn drawn[t](x[..., t]) -> [..., t] {
  return cumsum[t](dropout(x, 0.5))
  scan[t = 2] { return sum[t](x) }
  emit(h) { return h + cumsum[t](x) }
}
fn alone[t](x[..., t]) -> [...] {
  return sum[t](x)
  scan[t] { return sum[t](x) }
  neutral() { return 0 }
}
fn long[t](x[..., t]) -> [...] {
  return sum[t](x)
  stream[t = 2] { return sum[t](x) }
}
axis c
fn uneven[t](x[batch, t], y[batch, t]) -> [batch, t] {
  return x * sum[t](y)
  scan[t = 2] { return sum[t](y) }
  emit(h) { return x * h }
}
model m(x[batch, n]) -> [batch, n] {
  param w[batch, n] = ones
  y = x * w
  a = unordered[n](y) + finished[n](y) + stated[n](y) + unbegun[n](y) + summed[n](y) + short[n](y) + parted[n](y)
  return a + merged[n](y) + named[n](y) + lost[n](y) + drawn[n](y) + alone[n](y) + long[n](y) +
         uneven[c](y[n -> c], y[n -> c][c = 0 .. 3])[c -> n]
}
train { x[batch, n] = synthetic(0, 1); loss = sum[batch, n](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
# ---- stream_of_other
include "std.dsl"
dim b = 2, t = 3
fn worst[t](x[..., t], y[...]) -> [...] {
  return max[t](x) + y
  stream[t](y) { return max[t](x) }
  merge(m, n) { return max(m, n) }
  finish(m) { return m + y }
}
model m(x[b, t], y[b]) -> [b] { return worst[t](x, y) }
