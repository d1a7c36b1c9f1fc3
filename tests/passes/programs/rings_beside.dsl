# SPDX-License-Identifier: Apache-2.0
# Two loops in a pipeline whose parameters are gathered ahead in rings of different lengths: a piece begins its ring
# itself, whatever slot the other piece of its stage left: with these cuts that is one which it does not have.
include "std.dsl"
dim batch = 8, embed = 12, seq = 4, vocab = 16, outer = 2, inner = 6, keys = 4, heads = 2, head = 4
dim few = 3, mid = 4, many = 4, two = 2
axis piece
layer reorder(x[batch, seq, embed]) -> [batch, seq, embed] {
  v3 = x[embed -> (outer, inner)]
  v6 = v3[(inner, outer) -> embed]
  return v6
}
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  v30 = log(1 + exp(x))
  q = wq:linear[embed, (heads, head)](v30, std = 0.289, bias = false)
  k = wk:linear[embed, (heads, head)](v30, std = 0.289, bias = false)[seq -> keys]
  v = wv:linear[embed, (heads, head)](v30, std = 0.289, bias = false)[seq -> keys]
  v34 = attend[seq, keys, head](q, k, v, scale = 0.5, mask = iota[keys] <= iota[seq])
  v36 = wo35:linear[(heads, head), embed](v34, std = 0.3)
  return v36
}
fn running[t](a[..., t], b[..., t], first[...]) -> [..., t] {
  h = first + a[t = 0] * b[t = 0] * 0
  repeat i in size[t] { h = a[t = i] * h + b[t = i]; y[t = i] = h }
  return y
  scan[t = 2] {
    h = a[t = 0] * b[t = 0] * 0
    all = h + 1
    repeat i in size[t] { h = a[t = i] * h + b[t = i]; all = all * a[t = i] }
    return (all, h)
  }
  neutral() { return (1, first) }
  merge(p, h, q, g) { return (p * q, q * h + g) }
  emit(p, h) {
    repeat i in size[t] { h = a[t = i] * h + b[t = i]; y[t = i] = h }
    return y
  }
}
model m(i32 tokens[batch, seq], u[batch, seq, embed]) -> [batch, seq, vocab], f32[] {
  param wte[vocab, embed] = normal(0.7)
  v1 = wte[vocab = tokens]
  v9 = b8:reorder(v1)
  v24[batch, seq] = 0.3
  repeat t21 in embed {
    v24 = v24 * (1 + 0.3 * v9[embed = 2 * t21])
    y22[embed = t21] = v24
  }
  v28 = n27:groupnorm[seq, embed](y22, groups = 3, eps = 0.1)
  b38f = b38:mix
  v39 = b38f(v28)
  v40 = b38f(v39)
  repeat h42 in few {
    v45 = l44:linear[embed, mid](v40, std = 0.289, bias = false)
    v47 = l46:linear[mid, embed](v45, std = 0.500)
    param p49[embed] = normal(0.5)
    v50 = running[seq](sigmoid(2 * v47 + 1), 0.5 * sin(v47), p49)
    v51 = 1.5 * tanh(0.7 * v50)
    v40 = 0.6 * v40 + 0.6 * v51
  }
  a54 = f32(0)
  repeat h52 in many {
    v55 = v40[seq -> piece]
    v57 = concat[piece](v55[piece = 2 .. 4], v55[piece = 0 .. 2])[piece -> seq]
    param p58[] = normal(0.5)
    v59 = v57 + p58
    v60 = cos(v59) * 0.8
    v61 = stack[two](v59, v60)
    v62 = erf(v61)
    v63 = 0.7 * sum[two](v62)
    v64 = 1.5 * tanh(0.7 * v63)
    a54 = a54 + 0.1 * mean[batch, seq, embed](v64 * v64)
    v40 = 0.6 * v40 + 0.6 * v64
  }
  v65 = 1.5 * tanh(0.7 * v40)
  v67 = l66:linear[embed, vocab](v65, std = 0.289, bias = false)
  return v67, a54
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  u[batch, seq, embed] = synthetic(-1, 1)
  y, e0 = m(tokens, u)
  loss = mean[batch, seq](xent[vocab](y, labels)) + 0.1 * e0
  optimizer = sgd(lr = 0.05)
  steps = 3
}
cluster four { gpus = 4; gpu = "cpu" }
parallel beside on four {
  mesh data = 2, pipe = 2
  pipeline h42, h52 on pipe (schedule = "zb_v", chunks = 2, cuts = (0, 3, 5))
  zero 3 on data (bucket = 256B, prefetch = 2)
}
