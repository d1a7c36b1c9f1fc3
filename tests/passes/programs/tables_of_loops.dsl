# Tables of the iterations of two loops, whose gradients are alike: what goes to one part of the bucket lies in another.
include "std.dsl"
dim batch = 8, embed = 8, seq = 4, vocab = 12, outer = 3, inner = 2
model m(i32 tokens[batch, seq]) -> [batch, seq, embed] {
  param wte[vocab, embed] = normal(0.7)
  x = wte[vocab = tokens]
  repeat o in outer {
    repeat i in inner {
      param first[vocab, embed], second[vocab, embed] = normal(0.5)
      x = 0.6 * x + 0.6 * (x + first[vocab = tokens] + second[vocab = tokens])
    }
  }
  return x
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq, embed]((m(tokens) - 0.3) ** 2)
  optimizer = adamw(lr = 0.01, clip = 0.5)
  steps = 2
}
cluster c { gpus = 4; gpu = "cpu" }
parallel p on c { mesh a = 2, b = 2; zero 1 on a, b }
