# SPDX-License-Identifier: Apache-2.0
# Products with a second form add gradients of weights up over micro-batches, in a loop of so many
# iterations that the proof of the plan skips some.
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, vocab = 16, embed = 16, heads = 2, head = 8, ffn = 32, layers = 12
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  return wo:linear[(heads, head), embed](attend[seq, kseq, head](q, k, v, scale = 0.5))
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn] |> gelu_tanh |> down:linear[ffn, embed]
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + mix(ln1:layernorm[embed](x))
    x = x + mlp(ln2:layernorm[embed](x))
  }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 0.1)
  precision = mixed(compute = bf16, params = f32, grads = f32, reduce = f32)
  steps = 2
}
cluster c { gpus = 2; gpu = "h100-sxm" }
parallel split on c { mesh tensor = 2; shard heads, ffn on tensor; micro batch = 2 }
