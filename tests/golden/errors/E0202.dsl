# ---- many
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, embed = 16, heads = 4, head = 4, layers = 2
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)
  o = atend[seq, kseq, head](q, k, k, scale = head ** -0.5)
  return wo:linear[(heads, head), embed](o)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed]
}
model m(i32 t[batch, seq]) -> [batch, seq, vocab] {
  param w[vocab, embed] = normal(0.02)
  x = w[vocab = t]
  repeat h in layers {
    x = x + attention(n1:layernorm[embed](x))
    x = x + mlp(n2:layernorm[embed](x))
  }
  return x @embed w
}
train {
  i32 t[batch, seq], i32 l[batch, seq] = next_token(bin("x", u16))
  loss = mean[batch, seq](xent[vocab](m(t), l)) + foo
  optimizer = sgd(lr = 1e-2)
  steps = 3
}
# ---- misspelt
include "std.dsl"
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return softmax[embd](x)
}
# ---- no_lint
# `vocab` is unused only because its one use is misspelt: the error alone is shown.
dim batch = 4, vocab = 10, embed = 8
model m(i32 tokens[batch]) -> [batch, embed] {
  param wte[vocabulary, embed] = normal(0.1)
  return wte[vocabulary = tokens]
}
# ---- undeclared
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x[embed -> (heads, embed)]
}
