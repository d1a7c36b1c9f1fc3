# ---- keys
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, vocab = 16, embed = 32, kv = 8
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, kv](x)
  y = x[seq -> kseq]
  k = wk:linear[embed, kv](y)
  v = wv:linear[embed, kv](y)
  return softmax[kseq](q @kv k) @kseq v |> wo:linear[kv, embed]
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  return attention(wte[vocab = tokens]) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel context on two { mesh context = 2; shard seq on context }
