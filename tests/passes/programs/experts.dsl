# SPDX-License-Identifier: Apache-2.0
# Experts with a capacity: tests/passes/test_place.c
include "std.dsl"
dim batch = 8, seq = 8, vocab = 16, layers = 2, embed = 8, ffn = 8
dim pool = 4, each = batch // pool
dim experts = 4, route = experts, choice = 1, slot = 2

layer moe(x[batch, seq, embed]) -> [batch, seq, embed], f32[] {
  param f32 router[embed, route] = normal(0.5)
  param up[experts, embed, ffn], down[experts, ffn, embed] = normal(0.3)
  p = softmax[route](f32(x) @embed router)
  g, e = topk[route, choice](p)
  hot = onehot[route](e)
  pos = cumsum[seq, choice](hot)[route = e] - 1
  xe = scatter[seq, choice](x, experts = e, slot = pos)
  y = relu(xe @embed up) @ffn down
  pp, hp = p[batch -> (pool, each)], sum[choice](hot)[batch -> (pool, each)]
  aux = size[route] * mean[pool](sum[route](mean[each, seq](pp) * mean[each, seq](hp)))
  return sum[choice](g * y[experts = e, slot = pos]), aux
}
model mixture(i32 tokens[batch, seq]) -> [batch, seq, vocab], f32[] {
  param wte[vocab, embed] = normal(0.3)
  x, aux = wte[vocab = tokens], f32(0)
  repeat h in layers {
    y, a = moe(n:rmsnorm[embed](x))
    x, aux = x + y, aux + a
  }
  return x @embed wte, aux
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z, aux = mixture(tokens)
  loss = mean[batch, seq](xent[vocab](z, labels)) + 0.02 * aux / layers
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
cluster eight { gpus = 8; gpu = "cpu" }
parallel experts on four { mesh expert = 4; shard experts on expert; shard batch on expert }
parallel groups on eight {
  mesh data = 2, expert = 2, tensor = 2
  shard experts on expert
  shard ffn, vocab on tensor
  shard seq on tensor
  shard batch on data, expert
  micro batch = 2
}
