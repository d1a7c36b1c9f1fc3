# ---- directive_in_cluster
include "mini/train.dsl"
cluster c { gpus = 2; gpu = "cpu"; mesh data = 2 }
# ---- directive_in_train
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
  micro batch = 4
}
# ---- setting_in_parallel
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  chunks = 2
}
# ---- adapt_without_quotes
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
  adapt up = lora(rank = 2)
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
# ---- adapt_without_layer
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
  adapt "*.up"
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
