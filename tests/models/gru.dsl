# SPDX-License-Identifier: Apache-2.0
# RNNsearch (Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and Translate", 2015): the source is read by a
# GRU in each direction, the translation written by a third, which looks at all of the source before each word and ends in a
# maxout layer. 80,443,000 parameters with one bias for each sum.
include "std.dsl"
dim batch = 80, src = 50, tgt = 50, vocab = 30_000, target = vocab, embed = 620, hidden = 1000, align = 1000, maxout = 500
dim both = 2 * hidden, pair = 2, row = hidden

# A step of a GRU: what it makes of the state h and of three sums of what it reads.
layer gru(z[batch, hidden], r[batch, hidden], n[batch, hidden], h[batch, hidden]) -> [batch, hidden] {
  param uz[row, hidden], ur[row, hidden], un[row, hidden] = normal(0.3)
  z = sigmoid(z + h[hidden -> row] @row uz)
  r = sigmoid(r + h[hidden -> row] @row ur)
  n = tanh(n + (r * h)[hidden -> row] @row un)
  return (1 - z) * h + z * n
}
# What the update gate, the reset gate and the new state make of x.
layer gates[a](x[..., a], bias) -> [..., hidden], [..., hidden], [..., hidden] {
  z, r = z:linear[a, hidden](x, std = 0.3, bias = bias), r:linear[a, hidden](x, std = 0.3, bias = bias)
  return z, r, n:linear[a, hidden](x, std = 0.3, bias = bias)
}
model rnnsearch(i32 source[batch, src], i32 tokens[batch, tgt]) -> [batch, tgt, target] {
  param words[vocab, embed], said[target, embed] = normal(0.3)
  x, y = words[vocab = source], said[target = tokens]
  az, ar, an = ahead:gates[embed](x, true)
  bz, br, bn = behind:gates[embed](x, true)
  ahead, behind = forward:gru, backward:gru
  f[batch, hidden], g[batch, hidden] = 0.0, 0.0
  repeat t in src {
    f = ahead(az[src = t], ar[src = t], an[src = t], f)
    fs[src = t] = f
    g = behind(bz[src = size[src] - 1 - t], br[src = size[src] - 1 - t], bn[src = size[src] - 1 - t], g)
    gs[src = size[src] - 1 - t] = g
  }
  notes = stack[pair](fs, gs)[(pair, hidden) -> both]
  s = tanh(gs[src = 0] |> first:linear[hidden, row](std = 0.3))[row -> hidden]
  keys = wk:linear[both, align](notes, std = 0.3)
  tz, tr, tn = word:gates[embed](y, true)
  look, ask, step = context:gates[both], wq:linear[hidden, align], decoder:gru
  param v[align] = normal(0.3)
  repeat u in tgt {
    near = softmax[src](tanh(keys + ask(s, std = 0.3, bias = false)) @align v)
    c = near @src notes
    cz, cr, cn = look(c, false)
    os[tgt = u], cs[tgt = u] = s, c
    s = step(tz[tgt = u] + cz, tr[tgt = u] + cr, tn[tgt = u] + cn, s)
  }
  o = a:linear[hidden, (maxout, pair)](os, std = 0.3) + b:linear[embed, (maxout, pair)](y, std = 0.3, bias = false)
  o = o + c:linear[both, (maxout, pair)](cs, std = 0.3, bias = false)
  return max[pair](o) |> out:linear[maxout, target](std = 0.3)
}
train {
  i32 source[batch, src] = synthetic(0, vocab)
  i32 tokens[batch, tgt], i32 labels[batch, tgt] = next_token(synthetic(0, target))
  loss = mean[batch, tgt](xent[target](rnnsearch(source, tokens), labels))
  optimizer = adamw(lr = 1e-3, clip = 1.0)
  steps = 250_000
}
