# SPDX-License-Identifier: Apache-2.0
# Swin-T (Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021): attention inside of windows, which
# every second block moves by half of one; a bias by relative place; 2 x 2 places become one between stages. 28,288,354
# parameters. Without stochastic depth.
include "std.dsl"
dim batch = 128, side = 224, classes = 1000, win = 7, head = 32, n1 = 1, n2 = 1, n3 = 3, n4 = 1
dim down = win, across = win, place = win * win, kplace = place
dim e1 = 96, e2 = 2 * e1, e3 = 4 * e1, e4 = 8 * e1, f1 = 4 * e1, f2 = 4 * e2, f3 = 4 * e3, f4 = 4 * e4
dim heads1 = e1 // head, heads2 = e2 // head, heads3 = e3 // head, heads4 = e4 // head
dim r1 = side // 4, r2 = side // 8, r3 = side // 16, r4 = side // 32, s1 = r1, s2 = r2, s3 = r3, s4 = r4
axis rows, cols, dy, dx, two, too, wide

# Which part of the image a row (or column) of a moved image is from: those that were brought to the end are no neighbours.
fn origin[r](moved) -> [r] { return (iota[r] >= size[r] - size[down]) + (iota[r] >= size[r] - moved) }

layer attention[r, s, e, heads](x[batch, r, s, e], moved) -> [batch, r, s, e] {
  param table[dy = 2 * size[down] - 1, dx = 2 * size[down] - 1, heads] = normal(0.02)
  y = if moved == 0 then x else x[r = (iota[r] + moved) % size[r]][s = (iota[s] + moved) % size[s]]
  y = y[r -> (rows, down), s -> (cols, across)][(down, across) -> place]
  q, k, v = wq:linear[e, (heads, head)](y), wk:linear[e, (heads, head)](y), wv:linear[e, (heads, head)](y)
  near = table[dy = iota[place] // size[down] - iota[kplace] // size[down] + (size[down] - 1),
               dx = iota[place] % size[down] - iota[kplace] % size[down] + (size[down] - 1)]
  from = (3 * origin[r](moved) + origin[s](moved))[r -> (rows, down), s -> (cols, across)][(down, across) -> place]
  same = from == from[place -> kplace]
  o = attend[place, kplace, head](q, k[place -> kplace], v[place -> kplace], scale = head ** -0.5, bias = near, mask = same)
  o = wo:linear[(heads, head), e](o)[place -> (down, across)][(rows, down) -> r, (cols, across) -> s]
  return if moved == 0 then o else o[r = (iota[r] - moved) % size[r]][s = (iota[s] - moved) % size[s]]
}
layer block[r, s, e, heads, f](x[batch, r, s, e], moved) -> [batch, r, s, e] {
  x = x + attention[r, s, e, heads](l1:layernorm[e](x), moved)
  return x + (l2:layernorm[e](x) |> up:linear[e, f] |> gelu |> down:linear[f, e])
}
layer merged[r, s, e, r2, s2, e2](x[batch, r, s, e]) -> [batch, r2, s2, e2] {
  y = x[r -> (r2, two), s -> (s2, too)][(too, two, e) -> wide]
  return c:linear[wide, e2](norm:layernorm[wide](y), bias = false)
}
model swin(image[batch, height = side, width = side, chan = 3]) -> [batch, classes] {
  x = norm:layernorm[e1](stem:conv(image, e1, 4, 4, pad = 0)[height -> r1, width -> s1, chan -> e1])
  repeat h1 in n1 { x = b0:block[r1, s1, e1, heads1, f1](b:block[r1, s1, e1, heads1, f1](x, 0), win // 2) }
  x = t2:merged[r1, s1, e1, r2, s2, e2](x)
  repeat h2 in n2 { x = b0:block[r2, s2, e2, heads2, f2](b:block[r2, s2, e2, heads2, f2](x, 0), win // 2) }
  x = t3:merged[r2, s2, e2, r3, s3, e3](x)
  repeat h3 in n3 { x = b0:block[r3, s3, e3, heads3, f3](b:block[r3, s3, e3, heads3, f3](x, 0), win // 2) }
  x = t4:merged[r3, s3, e3, r4, s4, e4](x)
  repeat h4 in n4 { x = b0:block[r4, s4, e4, heads4, f4](b:block[r4, s4, e4, heads4, f4](x, 0), 0) }
  return out:linear[e4, classes](mean[r4, s4](last:layernorm[e4](x)))
}
train {
  image[batch, height = side, width = side, chan = 3] = synthetic(-1, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](swin(image), label))
  optimizer = adamw(lr = 1e-3, decay = 0.05, decay_if = rank > 1)
  steps = 300_000
}
