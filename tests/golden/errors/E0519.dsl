# ---- hint
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  remat h (keep = mlpp)
}
# ---- inside
include "std.dsl"
dim batch = 8, seq = 6, vocab = 10, layers = 4, embed = 4
layer first(x[batch, seq, embed]) -> [batch, seq, embed] {
  hidden = a:linear[embed, embed2](x)
  return b:linear[embed2, embed](gelu(hidden))
}
layer second(x[batch, seq, embed]) -> [batch, seq, embed] {
  return c:linear[embed, embed2](x)[embed2 -> embed]
}
dim embed2 = embed
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + first(x) + second(x) }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel p on pair {
  mesh data = 2
  shard batch on data
  remat h (keep = (second.gelu, first.hiden, second.linear))
}
# ---- keep
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  remat h (keep = (mlp, gate))
}
# ---- path
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  remat h (drop = mlp.attend)
}
