# SPDX-License-Identifier: Apache-2.0
# Gemma 2 2B (Gemma Team, 2024): layers in pairs, the first sees the last 4,096 positions and the second all; scores and logits
# are capped by tanh; norms before and after each part, whose gains are stored less 1; tied embeddings. 2,614,341,888 parameters.
include "std.dsl"
dim batch = 64, seq = 8192, kseq = seq, reach = 4096, vocab = 256_000, pairs = 13
dim embed = 2304, kv = 4, group = 2, head = 256, two = 2, half = head // 2, ffn = 9216

fn rope(x[..., seq, head]) -> [..., seq, head] {
  angle = iota[seq] * 10_000.0 ** (-iota[half] / half)
  a, b = unstack[two](x[head -> (two, half)])
  return stack[two](a * cos(angle) - b * sin(angle), b * cos(angle) + a * sin(angle))[(two, half) -> head]
}
fn capped(x[...], most) -> [...] { return most * tanh(x / most) }
layer norm(x[batch, seq, embed]) -> [batch, seq, embed] {
  param gain[embed] = zeros
  return x * rsqrt(mean[embed](x * x) + 1e-6) * (1 + gain)
}
layer attention(x[batch, seq, embed], is_local) -> [batch, seq, embed] {
  q = x |> wq:linear[embed, (kv, group, head)](bias = false) |> rope
  k = (x |> wk:linear[embed, (kv, head)](bias = false) |> rope)[seq -> kseq]
  v = wv:linear[embed, (kv, head)](x, bias = false)[seq -> kseq]
  seen = iota[kseq] <= iota[seq] and (iota[seq] - iota[kseq] < size[reach] or not is_local)
  z = where(seen, capped(f32(q @head k) * head ** -0.5, 50), -inf)
  return wo:linear[(kv, group, head), embed](softmax[kseq](z) @kseq v, bias = false)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  g = gelu_tanh(gate:linear[embed, ffn](x, bias = false))
  return down:linear[ffn, embed](g * up:linear[embed, ffn](x, bias = false), bias = false)
}
layer block(x[batch, seq, embed], is_local) -> [batch, seq, embed] {
  x = x + n2:norm(attention(n1:norm(x), is_local))
  return x + n4:norm(mlp(n3:norm(x)))
}
model gemma(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens] * sqrt(embed)
  repeat h in pairs {
    x = near:block(x, true)
    x = far:block(x, false)
  }
  return capped(last:norm(x) @embed wte, 30)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](gemma(tokens), labels))
  optimizer = adamw(lr = 3e-4, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  steps = 100_000
}
