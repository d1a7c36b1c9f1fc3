# SPDX-License-Identifier: Apache-2.0
# Mamba-130m (Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023): 129,135,360 parameters.
include "std.dsl"
dim batch = 256, seq = 2048, vocab = 50280
dim layers = 24, embed = 768, inner = 2 * embed, cell = 16, low = (embed + 15) // 16
dim block = 64 # positions that go one after the other; as many as seq are the fastest on one core of a processor
axis tap

# Each channel remembers the last taps - 1 positions.
layer causal_conv[a](x[batch, seq, a], taps = 4) -> [batch, seq, a] {
  param w[tap = taps, a] = uniform(-0.5, 0.5)
  param b[a] = uniform(-0.5, 0.5)
  return sum[tap](window[seq, tap](x, taps, pad = (taps - 1, 0)) * w) + b
}

# h' = exp(delta A) h + delta B u; y = C h: what is kept of the past, and for how long, depends on the input. In blocks of
# positions: how much delta one has in all, and the state that it makes of nothing, of which each position's share has decayed since.
fn selected[t, d, n](u[..., t, d], delta[..., t, d], a[d, n], b[..., t, n], c[..., t, n]) -> [..., t, d] {
  h = delta[t = 0] * b[t = 0] * 0  # lint: allow L0301 - a state of n numbers for every channel
  repeat i in size[t] {
    h = exp(delta[t = i] * a) * h + delta[t = i] * u[t = i] * b[t = i]  # lint: allow L0301
    y[t = i] = h @n c[t = i]
  }
  return y
  scan[t = block] {
    all, so_far = sum[t](delta), cumsum[t](delta)
    return all, sum[t](delta * u * b * exp((all - so_far) * a))  # lint: allow L0301
  }
  neutral() { return 0, 0 }
  merge(all, h, more, g) { return all + more, h * exp(more * a) + g }  # lint: allow L0301
  emit(all, h) {
    repeat i in size[t] {
      h = exp(delta[t = i] * a) * h + delta[t = i] * u[t = i] * b[t = i]  # lint: allow L0301
      y[t = i] = h @n c[t = i]
    }
    return y
  }
}
layer selective_scan(u[batch, seq, inner]) -> [batch, seq, inner] {
  param log_a[inner, cell] = zeros       # A = -(1, 2, ..., cell) at first
  param d[inner] = ones
  delta = u |> down:linear[inner, low](bias = false) |> dt:low_rank
  b = u |> b:linear[inner, cell](bias = false)
  c = u |> c:linear[inner, cell](bias = false)
  return selected[seq, inner, cell](u, delta, -(1 + iota[cell]) * exp(log_a), b, c) + d * u
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
