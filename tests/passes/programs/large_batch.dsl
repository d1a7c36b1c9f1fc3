# SPDX-License-Identifier: Apache-2.0
# A batch of 131,072 sequences on 2,048 ranks: a rank has one sequence of a micro-batch, so strides between sequences
# that no memory could hold for the whole batch are no fault.
include "std.dsl"
dim batch = 131072, seq = 4096, vocab = 256, embed = 7168, ffn = 512, choice = 8, experts = 256, route = experts
dim slot = 5 * seq * choice // (4 * experts)

layer moe(x[batch, seq, embed]) -> [batch, seq, embed] {
  param f32 router[embed, route] = normal(0.02)
  param up[experts, embed, ffn], down[experts, ffn, embed] = normal(0.02)
  g, e = topk[route, choice](softmax[route](f32(x) @embed router))
  pos = cumsum[seq, choice](onehot[route](e))[route = e] - 1
  xe = scatter[seq, choice](x, experts = e, slot = pos)
  y = relu(xe @embed up) @ffn down
  return sum[choice](g * y[experts = e, slot = pos])
}
model mixture(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  return out:linear[embed, vocab](x + m:moe(x), bias = false)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("corpus/*.bin", u16))
  loss = mean[batch, seq](xent[vocab](mixture(tokens), labels))
  optimizer = adamw(lr = 1e-4)
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = f32)
  steps = 10
}
cluster pod { nodes = 256; gpus = 8; gpu = "h200"; intra = link(450GB/s, 2us); inter = link(50GB/s, 5us) }
parallel ep on pod {
  mesh data = 32, expert = 64
  shard experts on expert
  shard batch on data, expert
  micro batch = 64
}
