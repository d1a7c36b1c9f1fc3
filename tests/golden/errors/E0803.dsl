# ---- dtype
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = i32(labels)])
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- sample_axis
include "mini/model.dsl"
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  weights[seq, batch] = synthetic(0, 1)
  loss = sum[batch, seq](weights * max[vocab](tiny(tokens)))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- synthetic
dim batch = 4, bins = 8
model counts(i32 x[batch], scale[batch]) -> [batch] {
  param w[bins] = normal(0.02)
  return w[bins = x % bins] * scale
}
train {
  i32 x[batch] = synthetic(0, 5e9)
  scale[batch] = synthetic(-1e39, 1)
  loss = sum[batch](counts(x, scale))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- triple
include "std.dsl"
dim batch = 4, pair = 3, seq = 8, vocab = 16
train {
  i32 tokens[batch, pair, seq], i32 labels[batch, pair, seq] = chat("a.jsonl", tokenizer = "none")
  loss = mean[batch, pair, seq](f32(tokens + labels))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- four_axes
include "std.dsl"
dim batch = 4, pair = 2, two = 2, seq = 8, vocab = 16
train {
  i32 tokens[batch, pair, two, seq], i32 labels[batch, pair, two, seq] = chat("a.jsonl", tokenizer = "none")
  loss = mean[batch, pair, two, seq](f32(tokens + labels))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- no_image
include "std.dsl"
dim batch = 2, side = 8, many = 4
train {
  image[batch, height = side, width = side, many] = images("a")
  loss = mean[batch, height, width, many](image)
}
# ---- one_colour
include "std.dsl"
dim batch = 2, side = 8
train {
  image[batch, height = side, width = side] = images("a", mean = (0.1, 0.2, 0.3))
  loss = mean[batch, height, width](image)
}
