# ---- batch
# dtc --no-kernels --report
include "std.dsl"
dim batch = 64, seq = 16, vocab = 16, embed = 32, ffn = 32
dim experts = 2, route = experts, choice = 1, slot = 16
layer moe(x[batch, seq, embed]) -> [batch, seq, embed] {
  param router[embed, route] = normal(0.02)
  param w1[experts, embed, ffn], w2[experts, ffn, embed] = normal(0.02)
  g, e = topk[route, choice](softmax[route](x @embed router))
  pos = cumsum[seq, choice](onehot[route](e))[route = e] - 1
  xe = scatter[seq, choice](x, experts = e, slot = pos)
  y = silu(xe @embed w1) @ffn w2
  return sum[choice](g * y[experts = e, slot = pos])
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  x = wte[vocab = tokens]
  return (x + moe(x)) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel ep on four { mesh data = 2, expert = 2; shard experts on expert; shard batch on expert, data }
# ---- ring
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, embed = 8, wide = 8
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, wide](x, bias = false)[wide -> embed]
  k = wk:linear[embed, wide](x, bias = false)[wide -> embed, seq -> kseq]
  return attend[seq, kseq, embed](q, k, k, scale = 1.0)
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return attention(x) }
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = mean[batch, seq, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel rings on four {
  mesh outer = 2, inner = 2
  shard seq on inner, outer
  shard kseq on outer (ring = true)
}
