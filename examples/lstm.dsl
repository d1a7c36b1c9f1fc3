# SPDX-License-Identifier: Apache-2.0
# A language model of two LSTM layers (Hochreiter and Schmidhuber 1997, with the gates of Gers et al. 2000), as PyTorch's
# nn.LSTM with one bias. The products with the input are done for all positions at once, before the loop.
include "std.dsl"
dim batch = 32, seq = 256, vocab = 256, embed = 256, hidden = 512
axis gate, row

layer lstm[a, h](x[batch, seq, a]) -> [batch, seq, h] {
  param w[a, gate = 4, h] = uniform(-(size[h] ** -0.5), size[h] ** -0.5)
  param u[row = size[h], gate = 4, h] = uniform(-(size[h] ** -0.5), size[h] ** -0.5)
  param b[gate = 4, h] = zeros
  xw = x @a w + b
  s[batch, h] = 0.0
  c[batch, h] = 0.0
  repeat t in seq {
    z = xw[seq = t] + s[h -> row] @row u      # input, forget, candidate, output
    c = sigmoid(z[gate = 1]) * c + sigmoid(z[gate = 0]) * tanh(z[gate = 2])
    s = sigmoid(z[gate = 3]) * tanh(c)
    y[seq = t] = s
  }
  return y
}
model reader(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  return wte[vocab = tokens] |> first:lstm[embed, hidden] |> second:lstm[hidden, embed] |> out:linear[embed, vocab]
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("*.txt", to = 0.9))
  loss = mean[batch, seq](xent[vocab](reader(tokens), labels))
  optimizer = adamw(lr = constant(2e-3), clip = 1.0)
  steps = 2000
}
cluster two_cores { nodes = 1; gpus = 2; gpu = "cpu" }
parallel halves on two_cores {
  mesh data = 2
  shard batch on data
}
