# SPDX-License-Identifier: Apache-2.0
# Mistral 7B (Jiang et al., 2023): grouped queries, rotary positions, and attention that sees the last 4,096 positions only.
# 7,241,732,096 parameters.
include "std.dsl"
dim batch = 64, seq = 8192, kseq = seq, reach = 4096, vocab = 32000, layers = 32
dim embed = 4096, kv = 8, group = 4, head = 128, two = 2, half = head // 2, ffn = 14336

fn rope(x[..., seq, head]) -> [..., seq, head] {
  angle = iota[seq] * 10_000.0 ** (-iota[half] / half)
  a, b = unstack[two](x[head -> (two, half)])
  return stack[two](a * cos(angle) - b * sin(angle), b * cos(angle) + a * sin(angle))[(two, half) -> head]
}
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = x |> wq:linear[embed, (kv, group, head)](bias = false) |> rope
  k = x |> wk:linear[embed, (kv, head)](bias = false) |> rope
  v = x |> wv:linear[embed, (kv, head)](bias = false)
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = head ** -0.5,
                              mask = iota[kseq] <= iota[seq] and iota[seq] - iota[kseq] < size[reach])
  return wo:linear[(kv, group, head), embed](o, bias = false)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return down:linear[ffn, embed](silu(gate:linear[embed, ffn](x, bias = false)) * up:linear[embed, ffn](x, bias = false), bias = false)
}
model mistral(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(n1:rmsnorm[embed](x))
    x = x + mlp(n2:rmsnorm[embed](x))
  }
  return norm:rmsnorm[embed](x) |> out:linear[embed, vocab](bias = false)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](mistral(tokens), labels))
  optimizer = adamw(lr = warmup_cosine(3e-4, warmup = 2000, total = 500_000, floor = 3e-5), decay = 0.1, decay_if = rank > 1, clip = 1.0)
  steps = 500_000
}
