# A loop in a pipelined loop gathers ahead in a ring that the outer loop's body begins; the other piece of its stage leaves another
# slot behind. The piece says with which slot it begins, in the first iteration of its loop.
include "std.dsl"
dim batch = 8, embed = 8, mid = 8, seq = 6, vocab = 16, outer = 4, inner = 2, two = 2
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.7)
  x = wte[vocab = tokens]
  repeat h in outer {
    param shift[vocab, embed] = normal(0.5)
    z = x + shift[vocab = tokens]
    repeat g in inner {
      param bias[seq] = normal(0.5)
      z = 0.6 * z + 0.6 * tanh(0.7 * (z + bias))
    }
    x = 0.6 * x + 0.6 * tanh(z)
  }
  a = up:linear[embed, mid](x, std = 0.354) |> down:linear[mid, embed](std = 0.354)
  last[batch, embed] = 0.0
  repeat t in seq {
    param pair[embed, two] = normal(0.5)
    v = silu(0.6 * last + 0.6 * a[seq = t])
    last = tanh(sum[two](stack[two](v, 0.5 * v) * pair))
    y[seq = t] = last
  }
  return head:linear[embed, vocab](y + 0.4 * x, std = 0.354, bias = false)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 3
}
cluster eight { gpus = 8; gpu = "cpu" }
parallel within on eight {
  mesh data = 4, pipe = 2
  shard batch on data
  pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2)
  micro batch = 2
  zero 3 on data (bucket = 4KB, prefetch = 2)
}
