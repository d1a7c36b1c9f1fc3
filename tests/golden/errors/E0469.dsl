# ---- axes
include "mini/model.dsl"
fn mine(p[...], g[...], lr) -> [...] {
  state m[...] = zeros
  state norm[] = zeros
  norm = 1
  m = g
  return p - lr * m
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = mine(lr = 0.1)
  steps = 10
}
# ---- not_assigned
include "mini/model.dsl"
fn mine(p[...], g[...], lr) -> [...] {
  state m[...] = zeros
  return p - lr * (g + m)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = mine(lr = 0.1)
  steps = 10
}
# ---- result
include "mini/model.dsl"
fn mine(p[...], g[...], lr)  {
  return lr
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = mine(lr = 0.1)
  steps = 10
}
# ---- states
include "mini/model.dsl"
fn mine(p[...], g[...], lr) -> [...] {
  state a[...], b[...], c[...], d[...], e[...] = zeros
  a = g
  b = g
  c = g
  d = g
  e = g
  return p - lr * (a + b + c + d + e)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = mine(lr = 0.1)
  steps = 10
}
# ---- draws
include "mini/model.dsl"
fn mine(p[...], g[...], lr) -> [...] { return p - lr * dropout(g, 0.5) }
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = mine(lr = 0.1)
  steps = 10
}
# ---- loop
include "mini/model.dsl"
fn mine(p[...], g[...], lr) -> [...] {
  repeat i in 3 { g = g * 0.5 }
  return p - lr * g
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = mine(lr = 0.1)
  steps = 10
}
# ---- integers
include "mini/model.dsl"
fn mine(p[...], g[...], lr) -> [...] {
  state i32 n[...] = zeros
  n = n + 1
  return p - lr * g
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = mine(lr = 0.1)
  steps = 10
}
# ---- name
include "mini/model.dsl"
fn mine(p[...], g[...], lr, params = 2) -> [...] { return p - lr * params * g }
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](tiny(tokens)[vocab = labels])
  optimizer = mine(lr = 0.1)
  steps = 10
}
