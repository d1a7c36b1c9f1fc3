# SPDX-License-Identifier: Apache-2.0
# What `dtc calibrate` measures beside calibrate.dsl: small and narrow work. A recurrent layer (few rows in each product,
# many short kernels), convolutions of few channels, functions of angles, lookups, sums along short and strided axes.
include "std.dsl"
dim batch = 8, seq = 48, vocab = 300, embed = 96, hidden = 192, classes = 20
dim side = 14, down = side, across = side, rgb = 3, chans = 24, waves = 12
axis gate, row, feature

# A gated recurrent unit (Cho et al. 2014).
layer gru(x[batch, seq, embed]) -> [batch, seq, hidden] {
  param w[embed, gate = 3, hidden] = uniform(-0.1, 0.1)
  param u[row = hidden, gate = 2, hidden] = uniform(-0.1, 0.1)
  param v[row = hidden, hidden] = uniform(-0.1, 0.1)
  xw = x @embed w
  s[batch, hidden] = 0.0
  repeat t in seq {
    g = sigmoid(xw[seq = t][gate = 0..2] + s[hidden -> row] @row u)
    n = tanh(xw[seq = t][gate = 2] + (g[gate = 1] * s)[hidden -> row] @row v)
    s = (1 - g[gate = 0]) * s + g[gate = 0] * n
    y[seq = t] = s
  }
  return y
}
model small(i32 tokens[batch, seq], image[batch, height = side, width = side, chan = rgb]) -> [batch, classes] {
  param wte[vocab, embed] = normal(0.1)
  param mix[waves, embed] = normal(0.1)
  angle = iota[seq] * 50.0 ** (-iota[waves] / waves)
  x = wte[vocab = tokens] + (sin(angle) + cos(angle) * log(1 + iota[seq])) @waves mix
  x = x + conv1d[seq, embed](layernorm[embed](x), embed, 4, causal = true, groups = embed)
  h = max[seq](gru(x)) |> words:linear[hidden, classes]
  y = image |> conv(chans) |> relu |> deep:conv(chans) |> groupnorm[(height, width), chan](4) |> relu |> deeper:conv(2 * chans, 3, 2)
  return h + (mean[height, width](gelu(y))[chan -> feature] |> picture:linear[feature, classes])
}
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  i32 label[batch] = synthetic(0, classes)
  image[batch, height = side, width = side, chan = rgb] = synthetic(-1, 1)
  loss = mean[batch](xent[classes](small(tokens, image + normal[batch, down, across, rgb](0, 0.1)[down -> height, across -> width, rgb -> chan]), label))
  optimizer = adamw(lr = constant(1e-3))
  steps = 16
}
cluster here { nodes = 1; gpus = 1; gpu = "cpu" }
parallel one on here { mesh data = 1 }
