# A recurrence along a sequence in every layer: what it begins with, elements, results forwards and backwards.
include "std.dsl"
dim batch = 16, seq = 8, embed = 8, wide = 8, layers = 8, classes = 8
layer recurrent(x[batch, seq, embed]) -> [batch, seq, embed] {
  param decay[wide] = normal(0.5)
  z = into:linear[embed, wide](x)
  s[batch, wide] = 0.0
  repeat t in seq {
    s = s * exp(-exp(decay)) + z[seq = t]
    y[seq = t] = tanh(s)
    back[seq = size[seq] - 1 - t] = s * z[seq = size[seq] - 1 - t]
  }
  return out:linear[wide, embed](y + 0.1 * back)
}
model m(x[batch, seq, embed]) -> [batch, classes] {
  repeat h in layers { x = x + recurrent(norm:rmsnorm[embed](x)) }
  return mean[seq](x) |> head:linear[embed, classes]
}
train {
  x[batch, seq, embed] = synthetic(0, 1)
  i32 labels[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](m(x), labels))
  optimizer = adamw(lr = 1e-2, clip = 1.0)
  steps = 2
}
