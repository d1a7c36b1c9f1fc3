# ---- twice
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](tiny(tokens)[vocab = labels])
  optimizer = adamw(lr = 0.1)
  all = sgd(lr = 0.1, params = "*")
  tables = sgd(lr = 0.1, params = "wte")
  steps = 10
}
# ---- rest
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  x = with_gain(tokens)
  loss = -sum[batch, seq](x[vocab = labels])
  tables = sgd(lr = 0.1, params = "wte")
  steps = 10
}
model with_gain(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param gain[embed] = ones
  return (wte[vocab = tokens] * gain) @embed wte
}
# ---- frozen
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](with_gain(tokens)[vocab = labels])
  optimizer = adamw(lr = 0.1)
  gains = sgd(lr = 0.1, params = "gain")
  frozen = "g*"
  steps = 10
}
model with_gain(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param gain[embed] = ones
  return (wte[vocab = tokens] * gain) @embed wte
}
# ---- both
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
  first = sgd(lr = 0.1, loss = near)
  second = sgd(lr = 0.1, loss = far)
  steps = 10
}
# ---- all_frozen
include "std.dsl"
dim batch = 4, embed = 4
model m(x[batch, embed]) -> [batch, embed] {
  param w[embed] = ones
  return x * w
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.1)
  frozen = "*"
  steps = 4
}
# ---- adapters
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
  frozen = "*"
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- adapters_group
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
  rest = sgd(lr = 0.1, params = "*.up.w")
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
