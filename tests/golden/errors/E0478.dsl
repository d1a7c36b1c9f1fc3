# ---- no_instance
include "std.dsl"
dim batch = 4, embed = 8
model net(x[batch, embed]) -> [batch, embed] { return x |> up:rmsnorm[embed] }
train {
  x[batch, embed] = synthetic(-1, 1)
  policy = net
  fn_ = relu
  loss = mean[batch, embed](policy(x) - copy(fn_)(x))
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- value
include "std.dsl"
dim batch = 4, embed = 8
model net(x[batch, embed]) -> [batch, embed] { return x |> up:rmsnorm[embed] }
train {
  x[batch, embed] = synthetic(-1, 1)
  policy = net
  y = policy(x)
  old = copy(y)
  loss = mean[batch, embed](y - old(x))
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- copy_of_copy
include "std.dsl"
dim batch = 4, embed = 8
model net(x[batch, embed]) -> [batch, embed] { return x |> up:rmsnorm[embed] }
train {
  x[batch, embed] = synthetic(-1, 1)
  policy = net
  old = copy(policy)
  older = older:copy(old)
  loss = mean[batch, embed](policy(x) - old(x) + older(x))
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- never_called
include "std.dsl"
dim batch = 4, embed = 8
model net(x[batch, embed]) -> [batch, embed] { return x |> up:rmsnorm[embed] }
train {
  x[batch, embed] = synthetic(-1, 1)
  policy = net
  old = old:copy(policy)
  y = old(x)
  other = other:net(x)
  loss = mean[batch, embed](other + y)
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- inside
include "std.dsl"
dim batch = 4, embed = 8
layer twice(x[batch, embed]) -> [batch, embed] {
  n = rmsnorm[embed]
  old = copy(n)
  return n(x) + old(x)
}
model net(x[batch, embed]) -> [batch, embed] { return twice(x) }
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](net(x))
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
