# SPDX-License-Identifier: Apache-2.0
# Qwen 3 0.6B (Qwen Team, "Qwen3 Technical Report", 2025): grouped queries, an RMS norm of queries and keys per head, tied
# embeddings. 596,049,920 parameters.
include "std.dsl"
dim batch = 64, seq = 4096, kseq = seq, vocab = 151_936, layers = 28
dim embed = 1024, kv = 8, group = 2, head = 128, two = 2, half = head // 2, ffn = 3072

fn rope(x[..., seq, head]) -> [..., seq, head] {
  angle = iota[seq] * 1e6 ** (-iota[half] / half)
  a, b = unstack[two](x[head -> (two, half)])
  return stack[two](a * cos(angle) - b * sin(angle), b * cos(angle) + a * sin(angle))[(two, half) -> head]
}
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = x |> wq:linear[embed, (kv, group, head)](bias = false) |> qn:rmsnorm[head](eps = 1e-6) |> rope
  k = x |> wk:linear[embed, (kv, head)](bias = false) |> kn:rmsnorm[head](eps = 1e-6) |> rope
  v = x |> wv:linear[embed, (kv, head)](bias = false)
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(kv, group, head), embed](o, bias = false)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return down:linear[ffn, embed](silu(gate:linear[embed, ffn](x, bias = false)) * up:linear[embed, ffn](x, bias = false), bias = false)
}
model qwen(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(n1:rmsnorm[embed](x, eps = 1e-6))
    x = x + mlp(n2:rmsnorm[embed](x, eps = 1e-6))
  }
  return norm:rmsnorm[embed](x, eps = 1e-6) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](qwen(tokens), labels))
  optimizer = adamw(lr = 3e-4, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  steps = 100_000
}
