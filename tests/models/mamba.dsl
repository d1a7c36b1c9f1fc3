# SPDX-License-Identifier: Apache-2.0
# Mamba 130M (Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023): a state of 16 numbers for each
# channel, whose decay, input and output depend on the position. 129,135,360 parameters.
include "std.dsl"
dim batch = 256, seq = 2048, vocab = 50_280, layers = 24, embed = 768, inner = 2 * embed, state1 = 16, low = embed // 16

layer ssm(u[batch, seq, embed]) -> [batch, seq, embed] {
  param a_log[inner, state1] = uniform(0, 1)
  param skip[inner] = ones
  z = wz:linear[embed, inner](u, std = 0.3, bias = false)
  x = wx:linear[embed, inner](u, std = 0.3, bias = false)
  x = silu(cx:conv1d[seq, inner](x, inner, 4, groups = inner, causal = true))
  dt = softplus(x |> wd:linear[inner, low](std = 0.3, bias = false) |> dt:linear[low, inner](std = 0.3))
  b, c = wb:linear[inner, state1](x, std = 0.3, bias = false), wc:linear[inner, state1](x, std = 0.3, bias = false)
  rate, fed = -exp(a_log), dt * x
  s[batch, inner, state1] = 0.0
  repeat t in seq {
    s = s * exp(dt[seq = t] * rate) + fed[seq = t] * b[seq = t]  # lint: allow L0301 - a state for every channel
    y[seq = t] = s @state1 c[seq = t]
  }
  return wo:linear[inner, embed]((y + skip * x) * silu(z), std = 0.3, bias = false)
}
model mamba(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + ssm(n:rmsnorm[embed](x)) }
  return last:rmsnorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](mamba(tokens), labels))
  optimizer = adamw(lr = 6e-4, betas = (0.9, 0.95), decay = 0.1, decay_if = rank > 1, clip = 1.0)
  steps = 100_000
}
