# ---- parts
include "mini/model.dsl"
include "std.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](tiny(tokens), labels))
  optimizer = adamw(lr = 0.1)
  steps = 10
}
cluster three { gpus = 3; gpu = "cpu" }
parallel p on three { mesh data = 3; local 8 on data }
# ---- both
include "mini/model.dsl"
include "std.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](tiny(tokens), labels))
  optimizer = adamw(lr = 0.1)
  steps = 10
}
parallel p on pair { mesh data = 2; shard batch on data; gossip pairs on data }
# ---- no_dim
include "mini/model.dsl"
include "std.dsl"
axis many
train {
  i32 tokens[many = 8, seq], i32 labels[many = 8, seq] = next_token(synthetic(0, vocab))
  loss = mean[many, seq](xent[vocab](tiny(tokens[many -> batch])[batch -> many], labels))
  optimizer = adamw(lr = 0.1)
  steps = 10
}
parallel p on pair { mesh data = 2; gossip ring on data }
# ---- state
include "std.dsl"
dim batch = 4, embed = 4
layer count(x[batch, embed]) -> [batch, embed] {
  param w[embed] = ones
  state i32 n[] = zeros
  n = n + 1
  return x * w + f32(n)
}
model m(x[batch, embed]) -> [batch, embed] { return count(x) }
train {
  x[batch, embed] = synthetic(0, 1)
  y = m(x)
  loss = mean[batch, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel p on pair { mesh data = 2; local 8 on data }
