# SPDX-License-Identifier: Apache-2.0
# Graph attention (Velickovic et al., "Graph Attention Networks", 2018) of the size for Cora: eight heads of eight, then one of seven
# classes. 92,373 parameters. An edge weighs as much as a softmax over the edges that end where it ends says; each node has an
# edge to itself. Without dropout.
include "std.dsl"
dim batch = 1, node = 2708, edge = 10_556, word = 1433, heads = 8, head = 8, classes = 7, one = 1

fn leaky(x[...]) -> [...] { return where(x > 0, x, 0.2 * x) }
fn elu(x[...]) -> [...] { return where(x > 0, x, exp(min(x, 0)) - 1) }
layer attention[a, h, d](x[batch, node, a], i32 from[batch, edge], i32 into[batch, edge]) -> [batch, node, h, d] {
  param source[h, d], target[h, d] = normal(0.3)
  param b[h, d] = zeros
  y = x |> w:linear[a, (h, d)](std = 0.1, bias = false)
  s, t = y @d source, y @d target
  z = leaky(s[node = from] + t[node = into])
  own = leaky(s + t)
  most = stop(max(max[edge](z), max[node](own)))
  e, f = exp(z - most), exp(own - most)
  around = scatter[edge](e * y[node = from], node = into) + f * y
  return around / (scatter[edge](e, node = into) + f) + b
}
model gat(x[batch, node, word], i32 from[batch, edge], i32 into[batch, edge]) -> [batch, node, classes] {
  h = elu(a1:attention[word, heads, head](x, from, into))
  return a2:attention[(heads, head), one, classes](h, from, into)[one = 0]
}
train {
  x[batch, node, word] = synthetic(0, 1)
  i32 from[batch, edge] = synthetic(0, node)
  i32 into[batch, edge] = synthetic(0, node)
  i32 label[batch, node] = synthetic(0, classes)
  loss = mean[batch, node](xent[classes](gat(x, from, into), label))
  optimizer = adamw(lr = 5e-3, decay = 5e-4)
  steps = 200
}
