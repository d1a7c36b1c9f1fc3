# Loops along an axis: elements as they are, shifted, strided and from behind; results forwards and backwards; a loop in
# a loop; elements and results of a loop over layers.
include "std.dsl"
dim batch = 4, seq = 6, embed = 6, layers = 4, rows = 2, cols = 3
axis k
layer cell[a](x[..., a], s[..., a]) -> [..., a] {
  param w[a, k = size[a]] = normal(0.5)
  param u[a, k = size[a]] = normal(0.5)
  return tanh((x @a w)[k -> a] + (s @a u)[k -> a])
}
layer rnn(x[batch, seq, embed]) -> [batch, seq, embed] {
  c = cell[embed]
  param start[embed] = normal(1.0)
  s[batch, embed] = 0.0
  s = s + start
  repeat t in seq {
    s = c(x[seq = t], s) + x[seq = t - 1] * 0.1 + x[seq = size[seq] - 1 - t] * x[seq = 2 * t + 1]
    y[seq = t] = s
    z[seq = size[seq] - 1 - t] = s * x[seq = t, embed = 2] + f32(t)
  }
  return y * z + s
}
layer grid(x[batch, seq, embed]) -> [batch, seq, embed] {
  v = x[seq -> (rows, cols)]
  c = cell[embed]
  s = 0 * x[seq = 0]
  repeat r in rows {
    repeat q in cols {
      s = c(v[rows = r, cols = q], s)
      inner[cols = q] = s
    }
    outer[rows = r] = inner
  }
  return outer[(rows, cols) -> seq]
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param gate[layers] = normal(1.0)
  g = exp(gate)
  repeat h in layers {
    x = x + rnn(x) * g[layers = h] + grid(x)
    kept[layers = h] = mean[seq](x)
  }
  return x + sum[layers](kept)
}
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = mean[batch, seq, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel data on c { mesh a = 2; shard batch on a; remat t; remat h (drop = rnn) }
parallel along on c { mesh a = 2; shard rows, seq on a }
parallel channels on c { mesh a = 2; shard embed on a }
parallel padded on four { mesh a = 4; shard seq on a (pad = 4) }
parallel both on four { mesh a = 2, b = 2; shard rows, seq on a; shard embed on b; remat h }
parallel time on c { mesh a = 2; shard batch on a; micro batch = 2; zero 2 on a }
parallel zero on c { mesh a = 2; shard batch on a; zero 3 on a; remat h }
parallel staged on four { mesh pipe = 2, a = 2; pipeline h on pipe; micro batch = 4; shard rows, seq on a }
parallel twice on c { mesh pipe = 2; pipeline layers on pipe (schedule = "interleaved_1f1b", chunks = 2); micro batch = 2 }
parallel split on four { mesh pipe = 2, a = 2; pipeline h on pipe (schedule = "zb_h1"); micro batch = 2; shard embed on a }
