# SPDX-License-Identifier: Apache-2.0
# DeepSeek-V2-Lite (DeepSeek-AI, 2024): latent attention, in which keys and values are made from 512 numbers and one rotated
# key for all heads; a dense first layer, then 64 experts of which 6 take each token, beside two that take all.
# 15,706,484,224 parameters. Experts have room for every token here, so nothing is dropped.
include "std.dsl"
dim batch = 64, seq = 4096, kseq = seq, vocab = 102_400, layers = 26
dim embed = 2048, heads = 16, nope = 128, turned = 64, head = nope + turned, value = 128, latent = 512
dim two = 2, half = turned // 2, dense = 10_944, ffn = 1408, shared = 2 * ffn
dim experts = 64, route = experts, choice = 6, slot = seq


fn rope(x[..., seq, turned]) -> [..., seq, turned] {
  angle = iota[seq] * 10_000.0 ** (-iota[half] / half)
  a, b = unstack[two](x[turned -> (two, half)])
  return stack[two](a * cos(angle) - b * sin(angle), b * cos(angle) + a * sin(angle))[(two, half) -> turned]
}
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q1 = wq:linear[embed, (heads, nope)](x, bias = false)
  q2 = wr:linear[embed, (heads, turned)](x, bias = false) |> rope
  c = norm:rmsnorm[latent](wc:linear[embed, latent](x, bias = false), eps = 1e-6)[seq -> kseq]
  k1 = wk:linear[latent, (heads, nope)](c, bias = false)
  v = wv:linear[latent, (heads, value)](c, bias = false)
  k2 = rope(wt:linear[embed, turned](x, bias = false))[seq -> kseq]
  z = f32(q1 @nope k1 + q2 @turned k2) * head ** -0.5
  o = softmax[kseq](where(iota[kseq] <= iota[seq], z, -inf)) @kseq v
  return wo:linear[(heads, value), embed](o, bias = false)
}
layer moe(x[batch, seq, embed]) -> [batch, seq, embed] {
  param f32 router[embed, route] = normal(0.02)
  param w1[experts, embed, ffn], w3[experts, embed, ffn], w2[experts, ffn, embed] = normal(0.02)
  g, e = topk[route, choice](softmax[route](f32(x) @embed router))
  pos = cumsum[seq, choice](onehot[route](e))[route = e] - 1
  xe = scatter[seq, choice](x, experts = e, slot = pos)
  y = (silu(xe @embed w1) * (xe @embed w3)) @ffn w2
  s = silu(gate:linear[embed, shared](x, bias = false)) * up:linear[embed, shared](x, bias = false)
  return sum[choice](g * y[experts = e, slot = pos]) + down:linear[shared, embed](s, bias = false)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  s = silu(gate:linear[embed, dense](x, bias = false)) * up:linear[embed, dense](x, bias = false)
  return down:linear[dense, embed](s, bias = false)
}
model deepseek(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  x = x + first:attention(first_n1:rmsnorm[embed](x, eps = 1e-6))
  x = x + mlp(first_n2:rmsnorm[embed](x, eps = 1e-6))
  repeat h in layers {
    x = x + attention(n1:rmsnorm[embed](x, eps = 1e-6))
    x = x + moe(n2:rmsnorm[embed](x, eps = 1e-6))
  }
  return norm:rmsnorm[embed](x, eps = 1e-6) |> out:linear[embed, vocab](bias = false)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](deepseek(tokens), labels))
  optimizer = adamw(lr = 4.2e-4, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  steps = 100_000
}
