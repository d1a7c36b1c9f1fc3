# SPDX-License-Identifier: Apache-2.0
# What `dtc calibrate` measures: training steps of a small GPT, in several sizes.
include "std.dsl"
dim batch = 2, seq = 256, kseq = seq, vocab = 256, layers = 2, embed = 256, heads = 8, head = embed // heads
dim ffn = 4 * embed

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o)
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[seq, embed] = normal(0.02)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + (ln2:layernorm[embed](x) |> up:linear[embed, ffn] |> gelu_tanh |> down:linear[ffn, embed])
  }
  return ln_f:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = constant(1e-3))
  steps = 6
}
# One device: `dtc calibrate --device cuda` asks for what the library knows of it.
cluster here { nodes = 1; gpus = 1; gpu = "cpu" }
parallel one on here { mesh data = 1 }
