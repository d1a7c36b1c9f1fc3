# A GRU that reads forwards and one that reads backwards, with the gates of PyTorch's nn.GRU.
include "std.dsl"
dim batch = 8, seq = 12, embed = 6, hidden = 8, classes = 4
axis gate, row

layer gru[a, h](x[batch, seq, a], back) -> [batch, seq, h] {
  param w[a, gate = 3, h] = normal(0.3)
  param u[row = size[h], gate = 3, h] = normal(0.3)
  param b[gate = 3, h] = normal(0.1)
  param d[gate = 3, h] = normal(0.1)
  xw = x @a w + b
  s[batch, h] = 0.0
  repeat t in seq {
    i = if back then xw[seq = size[seq] - 1 - t] else xw[seq = t]
    z = s[h -> row] @row u + d                # reset, update, candidate
    keep = sigmoid(i[gate = 1] + z[gate = 1])
    n = tanh(i[gate = 2] + sigmoid(i[gate = 0] + z[gate = 0]) * z[gate = 2])
    s = keep * s + (1 - keep) * n
    if back { y[seq = size[seq] - 1 - t] = s } else { y[seq = t] = s }
  }
  return y
}
model m(x[batch, seq, embed]) -> [batch, seq, classes] {
  return (gru[embed, hidden](x, false) * back:gru[embed, hidden](x, true)) |> out:linear[hidden, classes]
}
train {
  x[batch, seq, embed] = synthetic(0, 1)
  i32 label[batch, seq] = synthetic(0, classes)
  loss = mean[batch, seq](xent[classes](m(x), label))
  optimizer = adamw(lr = constant(1e-2), clip = 1.0)
  steps = 3
}
cluster c { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel hidden on c { mesh a = 2; shard hidden on a }
parallel along on c { mesh a = 2; shard seq on a; micro batch = 2 }
parallel both on four { mesh data = 2, a = 2; shard hidden on a; shard seq on a (pad = 4); shard batch on data }
