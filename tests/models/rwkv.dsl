# SPDX-License-Identifier: Apache-2.0
# RWKV-4 169M (Peng et al., "RWKV: Reinventing RNNs for the Transformer Era", 2023): attention as a recurrence with a decay for each
# channel, kept stable by its running maximum. 169,342,464 parameters.
include "std.dsl"
dim batch = 64, seq = 1024, vocab = 50_277, layers = 12, embed = 768, out1 = embed, ffn = 4 * embed, block = 64

fn mixed(x[batch, seq, embed], m[embed]) -> [batch, seq, embed] { return x * m + x[seq = iota[seq] - 1] * (1 - m) }

# What weights w e^k make of values, with the largest exponent taken out of both sums: what is before decays by `slower` a position.
# Of a block: by how much what is before it decays in it, and its own sums.
fn weighted[t, e](k[..., t, e], v[..., t, e], slower[e], bonus[e]) -> [..., t, e] {
  above, below, most = k[t = 0] * 0, k[t = 0] * 0, k[t = 0] * 0 - 1e30
  repeat i in size[t] {
    kt, vt = k[t = i], v[t = i]
    p = stop(max(most, bonus + kt))
    a, b = exp(most - p), exp(bonus + kt - p)
    y[t = i] = (a * above + b * vt) / (a * below + b)
    p = stop(max(most + slower, kt))
    a, b = exp(most + slower - p), exp(kt - p)
    above, below, most = a * above + b * vt, a * below + b, p
  }
  return y
  scan[t = block] {
    z = k + (size[t] - 1 - iota[t]) * slower
    m = stop(max[t](z))
    w = exp(z - m)
    return k[t = 0] * 0 + size[t] * slower, sum[t](w * v), sum[t](w), m
  }
  neutral() { return 0, 0, 0, -1e30 }
  merge(lost, above, below, most, more, a, b, m) {
    p = stop(max(most + more, m))
    x, y = exp(most + more - p), exp(m - p)
    return lost + more, x * above + y * a, x * below + y * b, p
  }
  emit(lost, above, below, most) {
    repeat i in size[t] {
      kt, vt = k[t = i], v[t = i]
      p = stop(max(most, bonus + kt))
      a, b = exp(most - p), exp(bonus + kt - p)
      y[t = i] = (a * above + b * vt) / (a * below + b)
      p = stop(max(most + slower, kt))
      a, b = exp(most + slower - p), exp(kt - p)
      above, below, most = a * above + b * vt, a * below + b, p
    }
    return y
  }
}
layer time_mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  param mk[embed], mv[embed], mr[embed] = uniform(0, 1)
  param decay[embed], bonus[embed] = uniform(-1, 1)
  k = wk:linear[embed, out1](mixed(x, mk), bias = false)[out1 -> embed]
  v = wv:linear[embed, out1](mixed(x, mv), bias = false)[out1 -> embed]
  r = sigmoid(wr:linear[embed, out1](mixed(x, mr), bias = false)[out1 -> embed])
  return wo:linear[embed, out1](r * weighted[seq, embed](k, v, -exp(decay), bonus), bias = false)[out1 -> embed]
}
layer channel_mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  param mk[embed], mr[embed] = uniform(0, 1)
  k = relu(wk:linear[embed, ffn](mixed(x, mk), bias = false)) ** 2
  r = sigmoid(wr:linear[embed, out1](mixed(x, mr), bias = false)[out1 -> embed])
  return r * wv:linear[ffn, embed](k, bias = false)
}
model rwkv(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  x = n0:layernorm[embed](wte[vocab = tokens])
  repeat h in layers {
    x = x + time_mix(n1:layernorm[embed](x))
    x = x + channel_mix(n2:layernorm[embed](x))
  }
  return last:layernorm[embed](x) |> head:linear[embed, vocab](bias = false)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](rwkv(tokens), labels))
  optimizer = adamw(lr = 6e-4, decay = 0)
  steps = 100_000
}
