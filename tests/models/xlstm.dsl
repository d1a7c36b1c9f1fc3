# SPDX-License-Identifier: Apache-2.0
# xLSTM (Beck et al., "xLSTM: Extended Long Short-Term Memory", 2024) of mLSTM blocks: a matrix for each head, to which each position
# adds the product of its value and key, under gates that are exponentials; the largest exponent is kept beside. 163,825,344
# parameters in 24 blocks.
include "std.dsl"
dim batch = 64, seq = 2048, vocab = 50_304, layers = 24, embed = 768, inner = 2 * embed, heads = 4, head = inner // heads, val = head
dim band = inner // 4, four = 4, into = four, three = 3, two = 2, block = 64
axis past

# c' = exp(lost) c + exp(i) k v, n' = exp(lost) n + exp(i) k; y = q c / max(|q n|, 1). Kept are c and n over exp(m).
# lint: allow L0208 - tried: the larger of some floats decides
fn mlstm[t, h, d, e](q[..., t, h, d], k[..., t, h, d], v[..., t, h, e], i[..., t, h], lost[..., t, h]) -> [..., t, h, e] {
  c = k[t = 0] * v[t = 0] * 0  # lint: allow L0301 - the matrix
  n = k[t = 0] * 0
  m = i[t = 0] * 0 - 1e30
  repeat j in size[t] {
    p = stop(max(m + lost[t = j], i[t = j]))
    old, new = exp(m + lost[t = j] - p), exp(i[t = j] - p)
    c = old * c + new * k[t = j] * v[t = j]  # lint: allow L0301
    n = old * n + new * k[t = j]
    m = p
    y[t = j] = (q[t = j] @d c) / max(abs(q[t = j] @d n), exp(-m))
  }
  return y
  scan[t = block] {
    z = i + sum[t](lost) - cumsum[t](lost)
    m = stop(max[t](z))
    w = exp(z - m) * k
    return sum[t](lost), m, w @t v, sum[t](w)
  }
  neutral() { return 0, -1e30, 0, 0 }
  merge(all, m, c, n, more, m2, c2, n2) {
    p = stop(max(m + more, m2))
    a, b = exp(m + more - p), exp(m2 - p)
    return all + more, p, a * c + b * c2, a * n + b * n2
  }
  emit(all, m, c, n) {
    so_far = cumsum[t](lost)
    z = where(iota[t][t -> past] <= iota[t], so_far - so_far[t -> past] + i[t -> past], -1e30)
    p = stop(max(max[past](z), so_far + m))
    s = (q @d k[t -> past]) * exp(z - p)
    before = exp(so_far + m - p)
    return (s @past v[t -> past] + before * (q @d c)) / max(abs(sum[past](s) + before * (q @d n)), exp(-p))
  }
}
layer bands(x[batch, seq, inner]) -> [batch, seq, inner] {
  param w[band, four, into] = normal(0.5)
  return (x[inner -> (band, four)] @four w)[(band, into) -> inner]
}
layer cell(x[batch, seq, inner], seen[batch, seq, inner]) -> [batch, seq, inner] {
  q, k, v = wq:bands(seen), wk:bands(seen), wv:bands(x)
  qkv = stack[three](q, k, v)
  i = wi:linear[(three, inner), heads](qkv, std = 0.3)
  f = wf:linear[(three, inner), heads](qkv, std = 0.3)
  q, k, v = q[inner -> (heads, head)], k[inner -> (heads, head)] * head ** -0.5, v[inner -> (heads, val)]
  y = mlstm[seq, heads, head, val](q, k, v, i, -softplus(-f))
  param gain[heads, val] = ones
  u = y - mean[val](y)
  return (u * rsqrt(mean[val](u * u) + 1e-5) * gain)[(heads, val) -> inner]
}
layer mixer(x[batch, seq, embed]) -> [batch, seq, embed] {
  param skip[inner] = ones
  x, z = unstack[two](up:linear[embed, (two, inner)](x, bias = false, std = 0.3))
  seen = silu(conv1d[seq, inner](x, inner, k = 4, groups = inner, causal = true))
  return down:linear[inner, embed]((cell(x, seen) + skip * seen) * silu(z), bias = false, std = 0.3)
}
model xlstm(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + mixer(norm:layernorm[embed](x)) }
  return last:layernorm[embed](x) |> out:linear[embed, vocab](bias = false, std = 0.3)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](xlstm(tokens), labels))
  optimizer = adamw(lr = 1e-3, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  steps = 100_000
}
