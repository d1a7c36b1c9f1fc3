# SPDX-License-Identifier: Apache-2.0
# A maximum over an axis that two mesh axes split, which are exchanged over one by one: what the first exchange leaves is
# a maximum still to be taken, and lies where its operand did.
include "std.dsl"
dim batch = 12, embed = 8, seq = 6, vocab = 16
layer flat(x[batch, seq, embed]) -> [batch, seq, embed] {
  h[batch, embed] = 0.0
  repeat t in seq { y[seq = size[seq] - 1 - t] = h }
  return y
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.7)
  top = max[seq](flat(wte[vocab = tokens]))
  param gain[seq] = normal(0.6)
  return head:linear[embed, vocab](top[embed = 7 - iota[embed]] * gain)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 0.1)
  steps = 2
}
cluster here { nodes = 1; gpus = 3; gpu = "cpu" }
parallel two on here { mesh a = 1, b = 3; shard seq on a; shard seq on b }
