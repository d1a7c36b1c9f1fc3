# ---- router
# dtc --no-kernels --report
include "std.dsl"
dim batch = 64, seq = 16, vocab = 16, embed = 32, ffn = 32
dim experts = 4, choice = 2, slot = 16
layer moe(x[batch, seq, embed]) -> [batch, seq, embed] {
  param router[embed, experts] = normal(0.02)
  param w1[experts, embed, ffn], w2[experts, ffn, embed] = normal(0.02)
  g, e = topk[experts, choice](softmax[experts](x @embed router))
  pos = cumsum[seq, choice](onehot[experts](e))[experts = e] - 1
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
parallel ep on four { mesh expert = 4; shard experts on expert; shard batch on expert }
