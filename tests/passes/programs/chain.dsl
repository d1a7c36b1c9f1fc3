# SPDX-License-Identifier: Apache-2.0
# What the data decide, through a chain in which each value is read twice: as a tree it has 2^40 leaves.
include "std.dsl"
dim batch = 4, seq = 4, vocab = 8, embed = 4
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  return wte[vocab = tokens] @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  c0 = f32(labels > 2)
  c1 = c0 * c0
  c2 = c1 * c1
  c3 = c2 * c2
  c4 = c3 * c3
  c5 = c4 * c4
  c6 = c5 * c5
  c7 = c6 * c6
  c8 = c7 * c7
  c9 = c8 * c8
  c10 = c9 * c9
  c11 = c10 * c10
  c12 = c11 * c11
  c13 = c12 * c12
  c14 = c13 * c13
  c15 = c14 * c14
  c16 = c15 * c15
  c17 = c16 * c16
  c18 = c17 * c17
  c19 = c18 * c18
  c20 = c19 * c19
  c21 = c20 * c20
  c22 = c21 * c21
  c23 = c22 * c22
  c24 = c23 * c23
  c25 = c24 * c24
  c26 = c25 * c25
  c27 = c26 * c26
  c28 = c27 * c27
  c29 = c28 * c28
  c30 = c29 * c29
  c31 = c30 * c30
  c32 = c31 * c31
  c33 = c32 * c32
  c34 = c33 * c33
  c35 = c34 * c34
  c36 = c35 * c35
  c37 = c36 * c36
  c38 = c37 * c37
  c39 = c38 * c38
  c40 = c39 * c39
  loss = sum[batch, seq](xent[vocab](m(tokens), labels) * c40) / sum[batch, seq](c40)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster two { gpus = 2; gpu = "cpu" }
parallel chain on two { mesh data = 2; shard batch on data; micro batch = 2 }
