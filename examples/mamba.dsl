# SPDX-License-Identifier: Apache-2.0
# Mamba-130m (Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023): 129,135,360 parameters.
include "std.dsl"
dim batch = 256, seq = 2048, vocab = 50280
dim layers = 24, embed = 768, inner = 2 * embed, cell = 16, low = (embed + 15) // 16
axis tap

# Each channel remembers the last taps - 1 positions.
layer causal_conv[a](x[batch, seq, a], taps = 4) -> [batch, seq, a] {
  param w[tap = taps, a] = uniform(-0.5, 0.5)
  param b[a] = uniform(-0.5, 0.5)
  return sum[tap](window[seq, tap](x, taps, pad = (taps - 1, 0)) * w) + b
}

# h' = exp(delta A) h + delta B u; y = C h + D u: what is kept of the past, and for how long, depends on the input.
layer selective_scan(u[batch, seq, inner]) -> [batch, seq, inner] {
  param log_a[inner, cell] = zeros       # A = -(1, 2, ..., cell) at first
  param d[inner] = ones
  delta = u |> down:linear[inner, low](bias = false) |> dt:low_rank
  b = u |> b:linear[inner, cell](bias = false)
  c = u |> c:linear[inner, cell](bias = false)
  a = -(1 + iota[cell]) * exp(log_a)
  h[batch, inner, cell] = 0.0
  repeat t in seq {
    # lint: allow L0301 - a state of `cell` numbers for every channel
    h = exp(delta[seq = t] * a) * h + delta[seq = t] * u[seq = t] * b[seq = t]
    y[seq = t] = h @cell c[seq = t]
  }
  return y + d * u
}
layer low_rank(x[batch, seq, low]) -> [batch, seq, inner] {
  param w[low, inner] = uniform(-(low ** -0.5), low ** -0.5)
  param b[inner] = uniform(-6.9, -2.25)   # softplus of it: 0.001 to 0.1
  return softplus(x @low w + b)
}
layer mixer(x[batch, seq, embed]) -> [batch, seq, embed] {
  u = x |> signal:linear[embed, inner](bias = false) |> conv:causal_conv[inner] |> silu
  gate = x |> gate:linear[embed, inner](bias = false) |> silu
  return selective_scan(u) * gate |> out:linear[inner, embed](std = 0.02 / sqrt(layers), bias = false)
}
model mamba(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + mixer(norm:rmsnorm[embed](x)) }
  return ln_f:rmsnorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("pile/*.txt"))
  loss = mean[batch, seq](xent[vocab](mamba(tokens), labels))
  optimizer = adamw(lr = warmup_cosine(6e-4, warmup = 2000, total = 100_000, floor = 1e-5), betas = (0.9, 0.95), decay = 0.1,
                    decay_if = rank > 1, clip = 1.0)
  steps = 100_000
}
cluster dgx { nodes = 1; gpus = 8; gpu = "h100-sxm" }
parallel dp on dgx {
  mesh data = 8
  shard batch on data
  micro batch = 4
  remat h
}
