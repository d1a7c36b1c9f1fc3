# A recurrence in both directions with dropout, which draws anew in each iteration; a loop over the samples.
include "std.dsl"
dim batch = 8, seq = 4, vocab = 8, embed = 4, layers = 2
axis k
layer cell[a](x[..., a], s[..., a]) -> [..., a] {
  param w[a, k = 2 * size[a]] = normal(0.5)
  param u[a, k = 2 * size[a]] = normal(0.5)
  z = x @a w + s @a u
  return tanh(z[k = iota[a]]) * 0.7 + dropout(s, 0.2) / (1 + exp(-z[k = iota[a] + size[a]]))
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  x = wte[vocab = tokens]
  repeat h in layers {
    f = fore:cell[embed]
    b = back:cell[embed]
    s[batch, embed] = 0.0
    r[batch, embed] = 0.0
    repeat t in seq {
      s = f(x[seq = t], s)
      r = b(x[seq = size[seq] - 1 - t], r)
      there[seq = t] = s
      again[seq = size[seq] - 1 - t] = r
    }
    x = x + there * again
    repeat i in batch {
      q[batch = i] = x[batch = i] * f32(i)
    }
    x = x + q * 0.1
  }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel data on c { mesh a = 2; shard batch on a }
parallel along on c { mesh a = 2; shard seq on a; remat h (keep = s) }
parallel channels on c { mesh a = 2; shard embed on a }
