# SPDX-License-Identifier: Apache-2.0
# Mamba-2 130M (Dao and Gu, "Transformers are SSMs", 2024): a state of 64 x 128 for each of 24 heads, decayed by one number a head
# and position; a causal convolution before, a gated norm behind. 128,989,632 parameters.
include "std.dsl"
dim batch = 64, seq = 2048, vocab = 50_288, layers = 24, embed = 768, heads = 24, head = 64, state1 = 128
dim inner = heads * head
axis win

layer causal[a](x[batch, seq, a]) -> [batch, seq, a] {
  param w[win = 4, a] = normal(0.3)
  param b[a] = zeros
  return silu(sum[win](window[seq, win](x, 4, 1, (3, 0)) * w) + b)
}
layer ssm(u[batch, seq, embed]) -> [batch, seq, embed] {
  param a_log[heads] = uniform(0, 1)
  param skip[heads] = ones
  param dt_bias[heads] = uniform(-1, 1)
  z = wz:linear[embed, inner](u, bias = false)
  x = cx:causal[inner](wx:linear[embed, inner](u, bias = false))[inner -> (heads, head)]
  b = cb:causal[state1](wb:linear[embed, state1](u, bias = false))
  c = cc:causal[state1](wc:linear[embed, state1](u, bias = false))
  dt = softplus(wd:linear[embed, heads](u, bias = false) + dt_bias)
  kept, fed = exp(-dt * exp(a_log)), dt * x
  s[batch, heads, head, state1] = 0.0
  repeat t in seq {
    s = s * kept[seq = t] + fed[seq = t] * b[seq = t]
    y[seq = t] = s @state1 c[seq = t]
  }
  y = (y + skip * x)[(heads, head) -> inner]
  return wo:linear[inner, embed](norm:rmsnorm[inner](y * silu(z)), bias = false)
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
  optimizer = adamw(lr = 6e-4, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  steps = 100_000
}
