# ---- no_layer
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
  adapt "*.up" = gelu()
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- no_result
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
  adapt "*.up" = linear(std = 0.1)
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- axes
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
  adapt "*.up" = lora[embed, mid](rank = 2)
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- value
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
  adapt "*.up" = lora(x = 2)
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- expression
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
  adapt "*.up" = 2 * 3
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- missing
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
layer shaped[a, b](x[..., a], y[..., b], rank, v[b]) -> [..., b] { return y * v * rank }
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, mid](net(x))
  adapt "*.up" = shaped(rank = 2)
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
