# ---- axis_as_value
include "std.dsl"
dim batch = 4, seq = 8
axis chans
model m(x[batch, seq, chans = 3]) -> [batch, seq, chans] {
  return x / chans
}
# ---- frozen
# Parameters frozen by path: no gradient, no moments, never changed.
include "std.dsl"
dim batch = 8, wide = 8, ffn = 4, layers = 4
layer f(x[batch, wide]) -> [batch, wide] { return x + up:linear[wide, ffn](gelu(x)) |> down:linear[ffn, wide] }
model m(x[batch, wide]) -> [batch, wide] {
  param scale[wide] = normal(0.5)
  y = first:f(x) * scale
  repeat h in layers { y = f(y) }
  return y
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, wide](y * y)
  frozen = ("first.*", "scal", "h.0.*")
  optimizer = adamw(lr = 0.001, clip = 1.0)
  steps = 4
  eval = every(4, steps = 1, data = synthetic(0, 1))
}
cluster c { gpus = 2; gpu = "cpu" }
parallel data on c { mesh data = 2; shard batch on data; micro batch = 2 }
parallel zero on c { mesh data = 2; shard batch on data; zero 3 on data }
parallel tensor on c { mesh tensor = 2; shard ffn on tensor; remat h }
parallel staged on c { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
# ---- library
fn f(x) {
  return x + nosuch(zz)
}
# ---- metric
include "std.dsl"
dim batch = 8, wide = 4
model m(x[batch, wide]) -> [batch, wide] {
  param w[wide] = ones
  return x * w
}
train {
  x[batch, wide] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, wide](y * y)
  size_of = mean[wide](abs(y))
  metrics = (size_off, loss_)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
# ---- misspelt
include "std.dsl"
dim batch = 4, seq = 8, embed = 16, embed2 = embed
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  hidden = linear[embed, embed2](x)
  return hiden[embed2 -> embed]
}
# ---- no_include
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return relu(x)
}
# ---- not_included
dim batch = 4, wide = 8
model m(x[batch, wide]) -> [batch] { return mean[wide](x) }
# ---- rank
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x * rank
}
# ---- schedule
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = warmup_cosin(0.1, total = 10))
  steps = 10
}
# ---- source
axis height, width
dim batch = 4
model m(x[batch, height, width]) -> [batch] {
  param w[height = x.height, width = x.width] = normal(0.1)
  return x @(height, width) w
}
train {
  x[batch, height = 8, width = 8] = nosuch("a")
  loss = sum[batch](m(x))
  optimizer = sgd(0.1)
  steps = 1
}
# ---- source_in_place
dim batch = 4, node = 3
model m(x[batch, node]) -> [batch] { return sum[node](x) }
train {
  x[batch, node], weight[batch] = synthetic(0, 1), synthetic(1, 2)
  loss = sum[batch](weight * m(x))
  optimizer = sgd(0.1)
  steps = 1
}
# ---- uncalled
include "std.dsl"
dim batch = 4, embed = 8
layer unused(x[batch, embd]) -> [batch, embed] {
  y = x @embed w
  if training { z = foo(x) }
  repeat k in layrs { x = x + y2 }
  return linear[embed, out](y)[out -> embd]
}
model m(x[batch, embed]) -> [batch, embed] { return x }
# ---- group
# No parameter of that path for an optimizer of its own.
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](tiny(tokens)[vocab = labels])
  optimizer = adamw(lr = 0.1)
  tables = sgd(lr = 0.1, params = "wtr")
  steps = 10
}
# ---- loss
include "std.dsl"
dim batch = 4, one = 1
model m(x[batch]) -> [batch], [] {
  param w[one] = 1
  param v[one] = 1
  return x * w[one = 0], v[one = 0]
}
train {
  x[batch] = synthetic(0, 1)
  y, v = m(x)
  near = mean[batch](y)
  far = mean[batch](y * v)
  metrics = far
  first = sgd(lr = 0.1, params = "w", loss = near)
  second = sgd(lr = 0.1, params = "v", loss = fare)
  steps = 10
}
# ---- layer_of_another_framework
include "std.dsl"
dim batch = 4, classes = 8, embed = 8
model m(x[batch, embed]) -> [batch, classes] { return out:Dense(embed, classes)(x) }
# ---- lookup_of_another_framework
include "std.dsl"
dim batch = 4, vocab = 8, embed = 8
model m(i32 ids[batch]) -> [batch, embed] {
  param table[vocab, embed] = normal(0.02)
  return table[vocab = 0] + nn.Embedding(vocab, embed)(ids)
}
# ---- loss_of_another_framework
include "std.dsl"
dim batch = 4, classes = 8, embed = 8
model m(x[batch, embed]) -> [batch, classes] { return x |> out:linear[embed, classes] }
train {
  x[batch, embed] = synthetic(0, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = F.cross_entropy(m(x), label)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
# ---- adapter_near
include "std.dsl"
dim batch = 4, embed = 8, mid = 6
layer block(x[batch, embed]) -> [batch, embed] {
  return x |> up:linear[embed, mid] |> down:linear[mid, embed]
}
layer joined[a, b](x[..., a], more[..., a]) -> [..., b] { return l:linear[a, b](x + more) }
model net(x[batch, embed]) -> [batch, mid] {
  param scale[embed] = ones
  repeat h in 3 { x = x + block(n:rmsnorm[embed](x)) }
  return join:joined[embed, mid](x, scale * x)
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, mid](net(x))
  adapt "*.dwn" = lora(rank = 2)
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- adapter_of_parameter
include "std.dsl"
dim batch = 4, embed = 8, mid = 6
layer block(x[batch, embed]) -> [batch, embed] {
  return x |> up:linear[embed, mid] |> down:linear[mid, embed]
}
layer joined[a, b](x[..., a], more[..., a]) -> [..., b] { return l:linear[a, b](x + more) }
model net(x[batch, embed]) -> [batch, mid] {
  param scale[embed] = ones
  repeat h in 3 { x = x + block(n:rmsnorm[embed](x)) }
  return join:joined[embed, mid](x, scale * x)
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, mid](net(x))
  adapt "scale" = lora(rank = 2)
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- trained
include "std.dsl"
dim batch = 4, embed = 8, mid = 6
layer block(x[batch, embed]) -> [batch, embed] {
  return x |> up:linear[embed, mid] |> down:linear[mid, embed]
}
layer joined[a, b](x[..., a], more[..., a]) -> [..., b] { return l:linear[a, b](x + more) }
model net(x[batch, embed]) -> [batch, mid] {
  param scale[embed] = ones
  repeat h in 3 { x = x + block(n:rmsnorm[embed](x)) }
  return join:joined[embed, mid](x, scale * x)
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, mid](net(x))
  adapt "*.up" = lora(rank = 2)
  trained = "scales"
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
