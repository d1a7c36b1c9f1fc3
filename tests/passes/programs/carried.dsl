include "std.dsl"
# Values that loops carry begin as one parameter, one input, and one gradient of zero.
dim batch = 4, vocab = 16, embed = 8, ffn = 12, layers = 7
layer mlp(x[batch, embed]) -> [batch, embed] {
  return x + (up:linear[embed, ffn](x) |> rmsnorm[ffn] |> down:linear[ffn, embed])
}
model m(i32 tokens[batch], given[batch, embed]) -> [batch, vocab] {
  param wte[vocab, embed], start[embed] = normal(0.5)
  a, b = start, start
  c, d = given, given
  x = wte[vocab = tokens]
  y = s:mlp
  repeat h in layers { x = y(x) * 0.5 + mlp(x) }
  repeat k in 3 {
    a = a * 0.5 + b
    b = b * 0.9
    c = c * start + d
    d = d * 0.9
  }
  return (x + a * b + c * d) @embed wte
}
train {
  i32 tokens[batch] = synthetic(0, vocab)
  given[batch, embed] = synthetic(0, 1)
  i32 labels[batch] = synthetic(0, vocab)
  loss = mean[batch](xent[vocab](m(tokens, given), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
