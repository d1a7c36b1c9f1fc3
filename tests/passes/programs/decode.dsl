# SPDX-License-Identifier: Apache-2.0
# One layer of each kind that entries with a cache know.
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, vocab = 8, embed = 4, layers = 2
axis tap
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  k = x[seq -> kseq]
  return attend[seq, kseq, embed](x, k, k, scale = 1.0, mask = iota[kseq] <= iota[seq])
}
model decoder(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed], wpe[seq, embed] = normal(0.5)
  x = wte[vocab = tokens] + wpe
  repeat h in layers { x = x + attention(x) }
  s[batch, embed] = 0.0
  repeat t in seq {
    s = 0.5 * s + x[seq = t]
    y[seq = t] = s
  }
  w = sum[tap](window[seq, tap](y, 3, pad = (2, 0)))
  return (w + cumsum[seq](x) + x[seq = iota[seq] - 1] + x[seq = 0]) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](decoder(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 1
  generate = cached(rows = 2, chunk = 4)
}
