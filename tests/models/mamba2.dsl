# SPDX-License-Identifier: Apache-2.0
# Mamba-2 130M (Dao and Gu, "Transformers are SSMs", 2024): a state of 64 x 128 for each of 24 heads, decayed by one number a head
# and position; a causal convolution before, a gated norm behind. 128,989,632 parameters.
include "std.dsl"
dim batch = 64, seq = 2048, vocab = 50_288, layers = 24, embed = 768, heads = 24, head = 64, state1 = 128
dim inner = heads * head, block = 64
axis win, past

layer causal[a](x[batch, seq, a]) -> [batch, seq, a] {
  param w[win = 4, a] = normal(0.3)
  param b[a] = zeros
  return silu(sum[win](window[seq, win](x, 4, 1, (3, 0)) * w) + b)
}
# s' = exp(rate) s + x b; y = s c. In blocks it is products of matrices: what a position keeps of those before it in the block, and
# of all before the block (the paper's section 6).
fn dual[t, h, d, n](x[..., t, h, d], rate[..., t, h], b[..., t, n], c[..., t, n]) -> [..., t, h, d] {
  s = x[t = 0] * b[t = 0] * 0  # lint: allow L0301 - a state for every channel
  repeat i in size[t] {
    s = s * exp(rate[t = i]) + x[t = i] * b[t = i]  # lint: allow L0301
    y[t = i] = s @n c[t = i]
  }
  return y
  scan[t = block] {
    all, so_far = sum[t](rate), cumsum[t](rate)
    return all, (x * exp(all - so_far)) @t b
  }
  neutral() { return 0, 0 }
  merge(all, s, more, g) { return all + more, s * exp(more) + g }
  emit(all, s) {
    so_far = cumsum[t](rate)
    kept = exp(where(iota[t][t -> past] <= iota[t], so_far - so_far[t -> past], -inf))
    return (s @n c) * exp(so_far) + (c @n b[t -> past] * kept) @past x[t -> past]
  }
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
  y = dual[seq, heads, head, state1](dt * x, -dt * exp(a_log), b, c)
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
