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
