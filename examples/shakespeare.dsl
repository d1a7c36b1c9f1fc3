# SPDX-License-Identifier: Apache-2.0
# The small CPU recipe of nanoGPT on Shakespeare's plays, byte by byte: 4 layers, 4 heads, width 128, context 64,
# 2,000 steps of 12 samples. The text is not part of this project; name yours with
#   dtrun PLAN --data tinyshakespeare.txt=/path/to/tinyshakespeare.txt
# bench/shakespeare.sh runs it with three seeds.
include "std.dsl"
dim batch = 12, seq = 64, kseq = seq, vocab = 256
dim layers = 4, embed = 128, heads = 4, head = embed // heads, ffn = 4 * embed

layer norm(x[..., embed]) -> [..., embed] {             # layer norm without shift
  param gain[embed] = ones
  u = x - mean[embed](x)
  return u * rsqrt(mean[embed](u * u) + 1e-5) * gain
}
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x, bias = false)
  k = wk:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o, std = 0.02 / sqrt(2 * layers), bias = false)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn](bias = false) |> gelu
           |> down:linear[ffn, embed](std = 0.02 / sqrt(2 * layers), bias = false)
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed], wpe[seq, embed] = normal(0.02)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    x = x + attention(ln1:norm(x))
    x = x + mlp(ln2:norm(x))
  }
  return ln_f:norm(x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("tinyshakespeare.txt", to = 0.9))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = warmup_cosine(1e-3, warmup = 100, total = 2000, floor = 1e-4),
                    betas = (0.9, 0.99), eps = 1e-8, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  eval = every(500, data = next_token(text("tinyshakespeare.txt", from = 0.9)))
  seed = 1
  steps = 2000
}
