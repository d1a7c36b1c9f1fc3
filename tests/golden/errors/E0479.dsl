# ---- optimizer
include "std.dsl"
dim batch = 4, embed = 8
model net(x[batch, embed]) -> [batch, embed] { return x |> up:rmsnorm[embed] }
fn wrong(average[...], p[...]) -> [...] { state more[...] = zeros; more = p; return average + more }
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](net(x))
  optimizer = sgd(lr = 0.1)
  average = adamw(lr = 1e-3)
  steps = 20
}
# ---- spelling
include "std.dsl"
dim batch = 4, embed = 8
model net(x[batch, embed]) -> [batch, embed] { return x |> up:rmsnorm[embed] }
fn wrong(average[...], p[...]) -> [...] { state more[...] = zeros; more = p; return average + more }
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](net(x))
  optimizer = sgd(lr = 0.1)
  average = emma(0.999)
  steps = 20
}
# ---- no_call
include "std.dsl"
dim batch = 4, embed = 8
model net(x[batch, embed]) -> [batch, embed] { return x |> up:rmsnorm[embed] }
fn wrong(average[...], p[...]) -> [...] { state more[...] = zeros; more = p; return average + more }
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](net(x))
  optimizer = sgd(lr = 0.1)
  average = ema
  steps = 20
}
# ---- states
include "std.dsl"
dim batch = 4, embed = 8
model net(x[batch, embed]) -> [batch, embed] { return x |> up:rmsnorm[embed] }
fn wrong(average[...], p[...]) -> [...] { state more[...] = zeros; more = p; return average + more }
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](net(x))
  optimizer = sgd(lr = 0.1)
  average = wrong()
  steps = 20
}
