# SPDX-License-Identifier: Apache-2.0
# What the optimizer keeps of a parameter grows by one in each step, also behind the parameter's elements in its bucket, where
# ranks share it, and so does what it makes of that; the next step adds up the squares of all elements, and of nothing else.
include "std.dsl"
dim batch = 8, vocab = 5, embed = 3
fn own[all](p[..., all], g[..., all], updates, lr) -> [..., all] {
  state steps[..., all], twice[..., all] = zeros
  before, double = steps, twice
  steps = before + 1
  twice = double + 2 * before
  return p - lr / (1 + sum[all](before * before) + sum[all](double * double) + sum[all](p * p)) * g
}
model m(i32 tokens[batch]) -> [batch, vocab] {
  param wte[vocab, embed] = normal(0.5)
  return wte[vocab = tokens] @embed wte
}
train {
  i32 tokens[batch] = synthetic(0, vocab)
  i32 labels[batch] = synthetic(0, vocab)
  loss = mean[batch](xent[vocab](m(tokens), labels))
  optimizer = own(lr = 0.5)
  steps = 3
}
cluster c { gpus = 2; gpu = "cpu" }
parallel one on c { mesh d = 2; shard batch on d; zero 1 on d }
parallel three on c { mesh d = 2; shard batch on d; micro batch = 2; zero 3 on d }
