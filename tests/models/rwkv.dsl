# SPDX-License-Identifier: Apache-2.0
# RWKV-4 169M (Peng et al., "RWKV: Reinventing RNNs for the Transformer Era", 2023): attention as a recurrence with a decay for each
# channel, kept stable by its running maximum. 169,342,464 parameters.
include "std.dsl"
dim batch = 64, seq = 1024, vocab = 50_277, layers = 12, embed = 768, out1 = embed, ffn = 4 * embed

fn mixed(x[batch, seq, embed], m[embed]) -> [batch, seq, embed] { return x * m + x[seq = iota[seq] - 1] * (1 - m) }

layer time_mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  param mk[embed], mv[embed], mr[embed] = uniform(0, 1)
  param decay[embed], bonus[embed] = uniform(-1, 1)
  k = wk:linear[embed, out1](mixed(x, mk), bias = false)[out1 -> embed]
  v = wv:linear[embed, out1](mixed(x, mv), bias = false)[out1 -> embed]
  r = sigmoid(wr:linear[embed, out1](mixed(x, mr), bias = false)[out1 -> embed])
  slower = -exp(decay)
  above[batch, embed], below[batch, embed], most[batch, embed] = 0.0, 0.0, -1e30
  repeat t in seq {
    kt, vt = k[seq = t], v[seq = t]
    p = stop(max(most, bonus + kt))
    a, b = exp(most - p), exp(bonus + kt - p)
    y[seq = t] = (a * above + b * vt) / (a * below + b)
    p = stop(max(most + slower, kt))
    a, b = exp(most + slower - p), exp(kt - p)
    above, below, most = a * above + b * vt, a * below + b, p
  }
  return wo:linear[embed, out1](r * y, bias = false)[out1 -> embed]
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
