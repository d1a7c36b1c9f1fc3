include "std.dsl"
# A loop in a loop that is computed again: what is kept of its iterations is read instead of made.
dim batch = 4, seq = 8, kseq = seq, vocab = 16, embed = 8, heads = 2, head = 4, layers = 2, inner = 3
layer att(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  return wo:linear[(heads, head), embed](attend[seq, kseq, head](q, k, k, scale = 0.5))
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  x = wte[vocab = tokens]
  repeat h in layers {
    repeat g in inner { x = x + att(x) }
  }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
