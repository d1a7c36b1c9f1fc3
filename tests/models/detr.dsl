# SPDX-License-Identifier: Apache-2.0
# DETR (Carion et al., "End-to-End Object Detection with Transformers", 2020), behind its backbone: an encoder over
# features of 32 x 32 pixels, a decoder over 100 queries, and a loss of sets: each box belongs to one query. The pairs
# are found greedily here. 18,069,856 parameters.
include "std.dsl"
dim batch = 64, rows = 25, cols = 34, place = rows * cols, kplace = place, feature = 2048, query = 100, kquery = query
dim embed = 256, other = embed, heads = 8, head = embed // heads, ffn = 2048, enc = 6, dec = 6, classes = 92, box = 20
dim pair = query * box, four = 4, two = 2, eighth = embed // 4, one = 1
axis part

fn sine(at[place]) -> [place, part] {
  angle = at * 10_000.0 ** (-iota[eighth] / eighth)
  return stack[two](sin(angle), cos(angle))[(eighth, two) -> part]
}
layer attention[s, t](q[..., s, embed], k[..., t, embed], v[..., t, embed]) -> [..., s, embed] {
  q = wq:linear[embed, (heads, head)](q, std = 0.3)
  k = wk:linear[embed, (heads, head)](k, std = 0.3)
  v = wv:linear[embed, (heads, head)](v, std = 0.3)
  return wo:linear[(heads, head), embed](attend[s, t, head](q, k, v, scale = head ** -0.5), std = 0.3)
}
layer mlp(x[..., embed]) -> [..., embed] {
  return x |> up:linear[embed, ffn](std = 0.3) |> relu |> down:linear[ffn, embed](std = 0.3)
}
model detr(image[batch, rows, cols, feature]) -> [batch, query, classes], [batch, query, four] {
  x = into:linear[feature, embed](image, std = 0.3)[(rows, cols) -> place]
  y = sine((iota[place] // size[cols] + 1) / size[rows] * 6.283185307179586)
  x0 = sine((iota[place] % size[cols] + 1) / size[cols] * 6.283185307179586)
  where_at = concat[part](y, x0)[part -> embed]
  repeat e in enc {
    q = x + where_at
    x = n1:layernorm[embed](x + attention[place, kplace](q, q[place -> kplace], x[place -> kplace]))
    x = n2:layernorm[embed](x + mlp(x))
  }
  param asked[query, embed] = normal(1)
  m = x[place -> kplace]
  km = (x + where_at)[place -> kplace]
  o[batch, query, embed] = 0.0
  repeat d in dec {
    q = o + asked
    o = n1:layernorm[embed](o + self:attention[query, kquery](q, q[query -> kquery], o[query -> kquery]))
    o = n2:layernorm[embed](o + cross:attention[query, kplace](o + asked, km, m))
    o = n3:layernorm[embed](o + mlp(o))
  }
  o = norm:layernorm[embed](o)
  b = relu(b1:linear[embed, other](o, std = 0.3))[other -> embed] |> b2:linear[embed, other](std = 0.3) |> relu
  return class:linear[embed, classes](o, std = 0.3), sigmoid(b3:linear[other, four](b, std = 0.3))
}
fn corners(b[..., four]) -> [...], [...], [...], [...] {
  x, y, w, h = unstack[four](b)
  return x - w / 2, y - h / 2, x + w / 2, y + h / 2
}
fn giou(a[..., four], b[..., four]) -> [...] {
  ax, ay, az, aw = corners(a)
  bx, by, bz, bw = corners(b)
  inner = max(min(az, bz) - max(ax, bx), 0) * max(min(aw, bw) - max(ay, by), 0)
  union = (az - ax) * (aw - ay) + (bz - bx) * (bw - by) - inner
  outer = (max(az, bz) - min(ax, bx)) * (max(aw, bw) - min(ay, by))
  return inner / union - (outer - union) / outer
}
# By box: the query that it belongs to.
fn matched(cost[batch, query, box]) -> i32[batch, box] {
  i32 found[batch, box] = 0
  bool free[batch, pair] = true
  repeat i in box {
    v, at = topk[pair, one](where(free, -cost[(query, box) -> pair], -inf))
    q, b = at[one = 0] // size[box], at[one = 0] % size[box]
    found = where(iota[box] == b, q, found)
    free = free and iota[pair] // size[box] != q and iota[pair] % size[box] != b
  }
  return found
}
train {
  image[batch, rows, cols, feature] = synthetic(-1, 1)
  boxes[batch, box, four] = synthetic(0.2, 0.8)
  i32 kinds[batch, box] = synthetic(1, classes)
  z, b = detr(image)
  far = sum[four](abs(b - boxes))
  cost = -softmax[classes](z)[classes = kinds] + 5 * far - 2 * giou(b, boxes)
  i32 of = matched(stop(cost))
  i32 wanted[batch, query] = scatter[box](kinds, query = of)
  weight = where(wanted == 0, 0.1, 1)
  class_loss = sum[batch, query](weight * xent[classes](z, wanted)) / sum[batch, query](weight)
  hit = b[query = of]
  loss = class_loss + 5 * mean[batch, box](sum[four](abs(hit - boxes))) + 2 * mean[batch, box](1 - giou(hit, boxes))
  optimizer = adamw(lr = 1e-4, decay = 1e-4, clip = 0.1)
  steps = 100_000
}
