# One layer used in every iteration, and one parameter inside and outside of the loop.
include "std.dsl"
dim batch = 2, vocab = 5, embed = 4, kembed = embed, ffn = 3, layers = 4
layer mlp(x[batch, embed]) -> [batch, embed] {
  return up:linear[embed, ffn](x) |> tanh |> down:linear[ffn, embed]
}
model m(i32 tokens[batch]) -> [batch, vocab] {
  param emb[vocab, embed] = normal(1)
  param scale[embed] = normal(1)
  f = all:mlp
  x = emb[vocab = tokens] * scale
  repeat h in layers {
    x = x + f(x) * scale + own:linear[embed, kembed](x)[kembed -> embed]
  }
  return x @embed emb
}
train {
  i32 tokens[batch] = synthetic(0, vocab)
  i32 labels[batch] = synthetic(0, vocab)
  loss = mean[batch](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 0.1, clip = 1, decay = 0.1)
  steps = 1
}
