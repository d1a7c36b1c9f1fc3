# SPDX-License-Identifier: Apache-2.0
# ALBERT base (Lan et al., "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations", 2020): one layer that is applied
# twelve times, and a table of words of a narrow width of its own. With the head for masked words, 11,221,680 parameters.
# Trained on a word for each place. Without dropout.
include "std.dsl"
dim batch = 256, seq = 512, kseq = seq, vocab = 30_000, kinds = 2, narrow = 128
dim layers = 12, embed = 768, heads = 12, head = embed // heads, ffn = 4 * embed

layer block(x[batch, seq, embed]) -> [batch, seq, embed] {
  q, k, v = wq:linear[embed, (heads, head)](x), wk:linear[embed, (heads, head)](x), wv:linear[embed, (heads, head)](x)
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = head ** -0.5)
  x = l1:layernorm[embed](x + wo:linear[(heads, head), embed](o), eps = 1e-12)
  return l2:layernorm[embed](x + (x |> up:linear[embed, ffn] |> gelu_tanh |> down:linear[ffn, embed]), eps = 1e-12)
}
model albert(i32 tokens[batch, seq], i32 kind[batch, seq]) -> [batch, seq, vocab] {
  param word[vocab, narrow], place[seq, narrow], segment[kinds, narrow] = normal(0.02)
  x = l0:layernorm[narrow](word[vocab = tokens] + place + segment[kinds = kind], eps = 1e-12)
  x = widened:linear[narrow, embed](x)
  b = block
  repeat h in layers { x = b(x) }
  x = x |> t:linear[embed, narrow] |> gelu_tanh |> lt:layernorm[narrow](eps = 1e-12)
  param shift[vocab] = zeros
  return x @narrow word + shift
}
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  i32 kind[batch, seq] = synthetic(0, kinds)
  i32 labels[batch, seq] = synthetic(0, vocab)
  loss = mean[batch, seq](xent[vocab](albert(tokens, kind), labels))
  optimizer = lamb(lr = 1.76e-3, decay = 0.01, decay_if = rank > 1)
  steps = 125_000
}
