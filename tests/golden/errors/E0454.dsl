# ---- rate_twice
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(0.1, lr = 0.2)
  steps = 10
}
# ---- steps
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
  steps = 20
}
# ---- group
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  z = sgd(lr = 0.2, params = "*")
  steps = 10
}
# ---- steps_and_epochs
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
  epochs = 2
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
