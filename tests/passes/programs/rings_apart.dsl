# Two loops whose rings differ: what is left in slots of one is added up before the other one begins, which then is the one that turns.
include "std.dsl"
dim batch = 12, embed = 8, wide = 10, seq = 5, vocab = 16, four = 4, two = 2
model m(i32 tokens[batch, seq]) -> [batch, seq, embed] {
  param wte[vocab, embed] = normal(0.7)
  x = wte[vocab = tokens]
  repeat first in four {
    a = up:linear[embed, wide](x, std = 0.354, bias = false)
    b = down:linear[wide, embed](a, std = 0.316, bias = false)
    x = 0.6 * x + 0.6 * tanh(b)
  }
  y = x
  repeat second in two {
    param gain[embed] = uniform(0.5, 1)
    y = 0.6 * y + 0.6 * tanh(y * gain)
  }
  return y
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  y = m(tokens)
  loss = mean[batch, seq, embed]((y - 0.3) ** 2)
  optimizer = sgd(lr=0.1)
  steps = 3
}
cluster both { gpus = 2; gpu = "cpu" }
parallel apart on both {
  mesh data = 2
  shard batch on data
  micro batch = 2
  zero 3 on data (prefetch = 2)
}
