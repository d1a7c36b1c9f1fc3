# SPDX-License-Identifier: Apache-2.0
# DeepSeek-V3 (DeepSeek-AI, 2024): latent attention with compressed queries, 3 dense layers, then 58 with 256 experts, of
# which 8 take each token by sigmoid gates, beside one that takes all; 671 billion parameters. Left out: the bias that
# levels the experts' load, and the second head. Experts have room for 1.25 times their share. The layout is that of the
# report's section 3.2: 16 stages, 64 ranks of experts over 8 machines, no tensor parallelism, on 2,048 H800.
include "std.dsl"
dim batch = 15_360, seq = 4096, kseq = seq, vocab = 129_280, front = 3, layers = 58
dim embed = 7168, heads = 128, nope = 128, turned = 64, head = nope + turned, value = 128, latent = 512, asked = 1536
dim two = 2, half = turned // 2, dense = 18_432, ffn = 2048, shared = ffn
dim experts = 256, route = experts, choice = 8, slot = 5 * seq * choice // (4 * experts)

fn rope(x[..., seq, turned]) -> [..., seq, turned] {
  angle = iota[seq] * 10_000.0 ** (-iota[half] / half)
  a, b = unstack[two](x[turned -> (two, half)])
  return stack[two](a * cos(angle) - b * sin(angle), b * cos(angle) + a * sin(angle))[(two, half) -> turned]
}
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  p = asks:rmsnorm[asked](wa:linear[embed, asked](x, bias = false), eps = 1e-6)
  q1 = wq:linear[asked, (heads, nope)](p, bias = false)
  q2 = wr:linear[asked, (heads, turned)](p, bias = false) |> rope
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
  g, e = topk[route, choice](sigmoid(f32(x) @embed router))
  g = g / sum[choice](g)
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
  param wte[vocab, embed] = normal(0.006)
  x = wte[vocab = tokens]
  repeat f in front {
    x = x + attention(n1:rmsnorm[embed](x, eps = 1e-6))
    x = x + mlp(n2:rmsnorm[embed](x, eps = 1e-6))
  }
  repeat h in layers {
    x = x + attention(n1:rmsnorm[embed](x, eps = 1e-6))
    x = x + moe(n2:rmsnorm[embed](x, eps = 1e-6))
  }
  return norm:rmsnorm[embed](x, eps = 1e-6) |> out:linear[embed, vocab](bias = false)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("corpus/*.bin", u32))
  loss = mean[batch, seq](xent[vocab](deepseek(tokens), labels))
  optimizer = adamw(lr = 2.2e-4, betas = (0.9, 0.95), decay = 0.1, decay_if = rank > 1, clip = 1.0)
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = bf16)
  steps = 235_000
}
cluster pod { nodes = 256; gpus = 8; gpu = "h800"; inter = link(50GB/s, 5us) }
parallel published on pod {
  mesh pipe = 16, data = 2, expert = 64
  shard experts on expert
  shard batch on data, expert
  pipeline f, h on pipe (schedule = "1f1b")
  micro batch = 120
  zero 1 on data, expert
  remat f, h
}
parallel best on pod { auto (minimise = step_time, memory = 0.92) }
