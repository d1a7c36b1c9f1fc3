# SPDX-License-Identifier: Apache-2.0
# Attention and MLP side by side: their pending sums are added before they are completed. tests/passes/test_place.c
include "std.dsl"
dim batch = 8, seq = 8, kseq = seq, vocab = 16, embed = 8, heads = 2, head = 4, ffn = 32, layers = 2
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed]
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  x = wte[vocab = tokens]
  repeat h in layers {
    n = n1:rmsnorm[embed](x)
    x = x + attention(n) + mlp(n)
  }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel beside on four {
  mesh data = 2, tensor = 2
  shard heads, ffn, vocab on tensor
  shard seq on tensor
  shard batch on data
}
