# SPDX-License-Identifier: Apache-2.0
# A graph convolutional network (Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks", 2017) of the
# size for Cora. A graph is a list of edges between two nodes each; it is not directed. 23,063 parameters.
include "std.dsl"
dim batch = 1, node = 2708, edge = 5429, word = 1433, hidden = 16, classes = 7

# Each node's sum over itself and its neighbours, divided by the roots of both numbers of neighbours.
fn spread[a](x[batch, node, a], i32 one[batch, edge], i32 other[batch, edge]) -> [batch, node, a] {
  near = 1.0 + scatter[edge](1.0, node = one) + scatter[edge](1.0, node = other)
  x = x * rsqrt(near)
  return (x + scatter[edge](x[node = one], node = other) + scatter[edge](x[node = other], node = one)) * rsqrt(near)
}
model gcn(x[batch, node, word], i32 one[batch, edge], i32 other[batch, edge]) -> [batch, node, classes] {
  h = relu(spread[hidden](x |> l1:linear[word, hidden](std = 0.3, bias = false), one, other) + b1:bias[hidden]())
  return spread[classes](h |> l2:linear[hidden, classes](std = 0.3, bias = false), one, other) + b2:bias[classes]()
}
layer bias[a]() -> [a] { param b[a] = zeros; return b }
train {
  x[batch, node, word] = synthetic(0, 1)
  i32 one[batch, edge] = synthetic(0, node)
  i32 other[batch, edge] = synthetic(0, node)
  i32 label[batch, node] = synthetic(0, classes)
  loss = mean[batch, node](xent[classes](gcn(x, one, other), label))
  optimizer = adamw(lr = 0.01, decay = 5e-4)
  steps = 200
}
