# SPDX-License-Identifier: Apache-2.0
# A teacher from other files (distill.py): a student beside two of them, of one model, imported from two folders.
include "std.dsl"
dim batch = 8, feature = 6, wide = 10, mid = wide, hidden = 5, classes = 4, layers = 2
constant temperature = 2.5, alpha = 0.6

model large(x[batch, feature]) -> [batch, classes] {
  u = tanh(linear[feature, wide](x, std = 0.5))
  repeat h in layers { u = u + (u |> up:linear[wide, mid](std = 0.3) |> gelu |> down:linear[mid, wide](std = 0.3)) }
  return head:linear[wide, classes](u, std = 0.5)
}
model small(x[batch, feature]) -> [batch, classes] {
  repeat h in layers { x = x + (x |> l1:linear[feature, hidden](std = 0.5) |> gelu |> l2:linear[hidden, feature](std = 0.5)) }
  return head:linear[feature, classes](x, std = 0.5)
}
names files on large {
  "first.weight"[wide, feature] = linear.w
  "first.bias"[wide] = linear.b0
  "h.{h}.up.weight"[mid, wide] = h.up.w
  "h.{h}.up.bias"[mid] = h.up.b0
  "h.{h}.down.weight"[wide, mid] = h.down.w
  "h.{h}.down.bias"[wide] = h.down.b0
  "head.weight"[classes, wide] = head.w
  initial "head.b0"
}
names small_files on small {
  "h.{h}.l1.weight"[hidden, feature] = h.l1.w
  "h.{h}.l1.bias"[hidden] = h.l1.b0
  "h.{h}.l2.weight"[feature, hidden] = h.l2.w
  "h.{h}.l2.bias"[feature] = h.l2.b0
  "head.weight"[classes, feature] = head.w
  "head.bias"[classes] = head.b0
}
fn log_softmax[c](z[..., c]) -> [..., c] { return z - lse[c](z) }
train teach {
  x[batch, feature] = bin("x.bin", f32)
  i32 label[batch] = bin("label.bin", u8)
  loss = mean[batch](xent[classes](large(x), label))
  optimizer = adamw(lr = 1e-2)
  steps = 20
}
train distill {
  x[batch, feature] = bin("x.bin", f32)
  i32 label[batch] = bin("label.bin", u8)
  i32 row[batch] = bin("row.bin", u8)
  z = small(x)
  t = (teacher:large(x) + other:large(x)) / 2
  said, meant = log_softmax[classes](z / temperature), log_softmax[classes](t / temperature)
  apart = mean[batch](sum[classes](exp(meant) * (meant - said)))
  rows = mean[batch](f32(row))
  loss = alpha * temperature ** 2 * apart + (1 - alpha) * mean[batch](xent[classes](z, label))
  metrics = apart, rows
  frozen = ("teacher.*", "other.*")
  optimizer = sgd(lr = 0.1, momentum = 0.5)
  steps = 6
}
cluster two { gpus = 2; gpu = "cpu" }
parallel zero on two { mesh data = 2; shard batch on data; zero 3 on data; micro batch = 2 }
parallel tensor on two { mesh tensor = 2; shard wide, mid on tensor }
