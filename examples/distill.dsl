# SPDX-License-Identifier: Apache-2.0
# Distillation (Hinton et al., 2015): a small model learns from the probabilities of a large one, softened by a
# temperature, and from labels. First the large model is trained and written for other programs, then the small one
# imports it as its teacher, whose parameters have the paths `teacher.*` and never change. The points are made here:
#
#   dtc examples/distill.dsl --train teach --parallel none -o out/teach.plan
#   dtrun out/teach.plan --export out/large --like none
#   dtc examples/distill.dsl --train distill --parallel none -o out/distill.plan
#   dtrun out/distill.plan --import teacher=out/large
#
# `agrees`, the share of points to which the small model gives the class that the teacher gives, goes to 0.9. A model of
# Hugging Face is imported as a teacher in the same way: include its program, and call it with a label.
include "std.dsl"
dim batch = 256, plane = 2, large_hidden = 128, large_wide = large_hidden, hidden = 16, classes = 6, first = 1
constant temperature = 3.0, alpha = 0.7

model large(x[batch, plane]) -> [batch, classes] {
  u = x |> l1:linear[plane, large_hidden](std = 0.7) |> gelu |> l2:linear[large_hidden, large_wide](std = 0.1) |> gelu
  return l3:linear[large_wide, classes](u, std = 0.1)
}
model small(x[batch, plane]) -> [batch, classes] {
  return x |> l1:linear[plane, hidden](std = 0.7) |> gelu |> l2:linear[hidden, classes](std = 0.3)
}
names files on large {
  "l1.weight"[large_hidden, plane] = l1.w
  "l1.bias"[large_hidden] = l1.b0
  "l2.weight"[large_wide, large_hidden] = l2.w
  "l2.bias"[large_wide] = l2.b0
  "l3.weight"[classes, large_wide] = l3.w
  "l3.bias"[classes] = l3.b0
}
# Arms of a spiral; a class for each.
fn on_spiral(label[batch], far[batch]) -> [batch, plane] {
  angle = label * 6.2832 / classes + 2 * far
  return far * where(iota[plane] == 0, cos(angle), sin(angle)) * 2
}
fn log_softmax[c](z[..., c]) -> [..., c] { return z - lse[c](z) }

train teach {
  i32 label[batch] = synthetic(0, classes)
  far = uniform[batch](0.2, 1)
  x = on_spiral(label, far) + normal[batch, plane](0, 0.1)
  loss = mean[batch](xent[classes](large(x), label))
  optimizer = adamw(lr = 5e-3)
  steps = 300
}
train distill {
  i32 label[batch] = synthetic(0, classes)
  far = uniform[batch](0.2, 1)
  x = on_spiral(label, far) + normal[batch, plane](0, 0.1)
  z, t = small(x), teacher:large(x)
  said, meant = log_softmax[classes](z / temperature), log_softmax[classes](t / temperature)
  apart = mean[batch](sum[classes](exp(meant) * (meant - said)))                 # Kullback-Leibler divergence
  labelled = mean[batch](xent[classes](z, label))
  loss = alpha * temperature ** 2 * apart + (1 - alpha) * labelled
  top, mine = topk[classes, first](z)
  best, theirs = topk[classes, first](t)
  agrees = mean[batch](f32(mine[first = 0] == theirs[first = 0]))
  metrics = agrees, apart
  frozen = "teacher.*"
  optimizer = adamw(lr = 1e-2)
  steps = 300
}
cluster laptop { nodes = 1; gpus = 2; gpu = "cpu" }
parallel two on laptop {
  mesh data = 2
  shard batch on data
  zero 3 on data
}
