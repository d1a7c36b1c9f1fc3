# SPDX-License-Identifier: Apache-2.0
# Batch norm with running statistics, over groups of samples that micro-batches do not cut; states of a loop, of an
# instance outside of it, and a counter. Behind the last layer, and so for pipelines on several stages: a codebook that
# the first layer reads, too; a moving average of the head; and a temperature of all layers, from the data.
include "std.dsl"
dim batch = 64, pool = 16, each = batch // pool, embed = 32, ffn = 64, layers = 8, classes = 10

layer norm(x[batch, embed]) -> [batch, embed] {
  param gain[embed] = ones
  state mu[embed], square[embed] = zeros
  state count[] = zeros
  g = x[batch -> (pool, each)]
  m, s = mean[each](g), mean[each](g * g)
  y = (g - m) * rsqrt(s - m * m + 1e-3)
  z = (x - mu) * rsqrt(square + 1e-3)
  mu = 0.9 * mu + 0.1 * mean[pool](m)
  square = 0.9 * square + 0.1 * mean[pool](s)
  count = count + 1
  return (if training then y[(pool, each) -> batch] else z) * gain
}
model states(x[batch, embed]) -> [batch, classes] {
  state code[classes, embed] = normal(0.3)
  state slow[embed, classes] = normal(0.02)
  state calm[] = ones
  param head[embed, classes] = normal(0.02)
  warm = mean[batch](sum[embed](x * x))
  x = first:norm(x)
  x = x + 0.1 * softmax[classes](x @embed code) @classes code
  repeat h in layers {
    x = x + calm * (norm(x) |> up:linear[embed, ffn] |> relu |> dropout(0.2) |> down:linear[ffn, embed])
  }
  p = stop(softmax[classes](x @embed code))
  y = x @embed head + 0.1 * (stop(x) @embed slow) + calm * stop(p)
  code = 0.9 * code + 0.1 * (p @batch stop(x)) / size[batch]
  slow = 0.9 * slow + 0.1 * stop(head)
  calm = 0.9 * calm + 0.01 * warm
  return y
}
train {
  x[batch, embed] = synthetic(-1, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](states(x), label))
  optimizer = sgd(lr = 0.1, momentum = 0.9, decay = 0.01, decay_if = rank > 1, clip = 1.0)
  steps = 100
}
