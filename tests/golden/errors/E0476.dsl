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
  adapt "h.*" = lora(rank = 2)
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- two
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
  adapt "*:linear" = ia3
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- tensors
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
  adapt "join" = lora(rank = 2)
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- label
include "std.dsl"
dim batch = 4, embed = 8, mid = 6
layer pair[a, b](x[..., a]) -> [..., b] { return x |> lora:linear[a, b] }
model net(x[batch, embed]) -> [batch, mid] { return join:pair[embed, mid](x) }
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, mid](net(x))
  adapt "join" = lora(rank = 2)
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
