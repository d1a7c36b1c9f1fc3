# SPDX-License-Identifier: Apache-2.0
# DLRM (Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019), as its authors
# train it on the Criteo Kaggle data: 26 tables of 16 numbers a row (here of equal size), dot products of all pairs of
# features, two multilayer perceptrons.
include "std.dsl"
dim batch = 128, dense = 13, tables = 26, rows = 1_298_561, embed = 16
dim b1 = 512, b2 = 256, b3 = 64, t1 = 512, t2 = 256
dim features = tables + 1, other = features, one = 1
axis part

layer bottom(x[batch, dense]) -> [batch, embed] {
  return x |> l1:linear[dense, b1] |> relu |> l2:linear[b1, b2] |> relu |> l3:linear[b2, b3] |> relu |> l4:linear[b3, embed] |> relu
}
model dlrm(x[batch, dense], i32 id[batch, tables]) -> [batch] {
  param table[tables, rows, embed] = uniform(-0.05, 0.05)
  d = bottom(x)
  e = table[rows = id]                                                    # each column looks up its own table
  f = concat[part](d[embed -> (one, embed)][one -> part], e[tables -> part])[part -> features]
  pairs = f @embed f[features -> other]
  below = where(iota[other] < iota[features], pairs, 0)                     # each pair once
  param w1[embed, t1], w2[features, other, t1] = normal(0.05)
  param b[t1] = zeros
  h = relu(d @embed w1 + below @(features, other) w2 + b)
  return (h |> l2:linear[t1, t2] |> relu |> l3:linear[t2, one])[one = 0]
}
train {
  x[batch, dense] = synthetic(0, 1)
  i32 id[batch, tables] = synthetic(0, rows)
  i32 click[batch] = synthetic(0, 2)
  z = dlrm(x, id)
  loss = mean[batch](log(1 + exp(-abs(z))) + max(z, 0) - z * click)
  optimizer = sgd(lr = 0.1)
  steps = 300_000
}
