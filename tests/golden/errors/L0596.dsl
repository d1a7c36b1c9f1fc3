# ---- parameter
# dtc --no-kernels --report
include "std.dsl"
dim batch = 8, down = 4, across = 4, embed = 8
axis tok
model m(image[batch, down, across]) -> [batch, embed] {
  param w[tok = down * across, embed] = normal(0.1)
  x = image[(down, across) -> tok]
  return x @tok w
}
train {
  image[batch, down, across] = synthetic(0, 1)
  y = m(image)
  loss = sum[batch, embed](y * y)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel rows on pair { mesh half = 2; shard w.down on half; shard batch on half }
# ---- repeated
include "std.dsl"
dim batch = 8, wide = 8, last = 4
model m(x[batch, wide]) -> [batch, last] { return x |> f:linear[wide, last] }
train {
  x[batch, wide] = synthetic(0, 1)
  loss = mean[batch, last](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel twice on pair {
  mesh half = 2
  shard batch on half
  shard batch on half # taken
  shard wide on half  # parameters have it
  micro batch = 2
}
# ---- ring
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, embed = 8, wide = 8
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, wide](x, bias = false)[wide -> embed]
  return attend[seq, kseq, embed](q, x[seq -> kseq], x[seq -> kseq], scale = 1.0)
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return attention(x) }
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = mean[batch, seq, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel rings on four {
  mesh outer = 2, inner = 2
  shard seq on inner; shard batch on outer
  shard kseq on outer (ring = true)
}
# ---- ring_axes
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, embed = 8, wide = 8
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, wide](x, bias = false)[wide -> embed]
  return attend[seq, kseq, embed](q, x[seq -> kseq], x[seq -> kseq], scale = 1.0)
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return attention(x) }
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = mean[batch, seq, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel rings on four {
  mesh outer = 2, inner = 2
  shard batch on outer, inner
  shard kseq on outer, inner (ring = true)
}
# ---- ring_padded
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 10, kseq = seq, embed = 8, wide = 8
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, wide](x, bias = false)[wide -> embed]
  return attend[seq, kseq, embed](q, x[seq -> kseq], x[seq -> kseq], scale = 1.0)
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return attention(x) }
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = mean[batch, seq, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel rings on four {
  mesh context = 4
  shard seq on context (pad = 4)
  shard kseq on context (ring = true, pad = 4)
}
# ---- ring_queries
# dtc --no-kernels --report
include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, embed = 8, wide = 8
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, wide](x, bias = false)[wide -> embed]
  return attend[seq, kseq, embed](q, x[seq -> kseq], x[seq -> kseq], scale = 1.0)
}
model m(x[batch, seq, embed]) -> [batch, seq, embed] { return attention(x) }
train {
  x[batch, seq, embed] = synthetic(0, 1)
  loss = mean[batch, seq, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster four { gpus = 4; gpu = "cpu" }
parallel rings on four {
  mesh data = 2, context = 2
  shard batch on data
  shard kseq on context (ring = true)
}
