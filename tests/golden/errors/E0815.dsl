# ---- none
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(mix(0.7 * bin("a.bin", u8), 0.3 * bun("b.bin", u8)))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- named
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(mix(a = bin("a.bin", u8), b = bin("b.bin", u8)))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- weight
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(mix(0.7 * bin("a.bin", u8), (0.3 - 0.3) * bin("b.bin", u8)))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- one
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(mix(0.7 * bin("a.bin", u8)))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- nested
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(mix(0.7 * bin("a.bin", u8), 0.3 * mix(bin("b.bin", u8), bin("c.bin", u8))))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- epochs
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(mix(0.7 * bin("a.bin", u8), 0.3 * bin("b.bin", u8)))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  epochs = 2
}
# ---- held
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(mix(0.7 * bin("a.bin", u8), 0.3 * bin("b.bin", u8)))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
  eval = every(5, data = next_token(mix(bin("a.bin", u8), bin("b.bin", u8))))
}
# ---- alone
include "mini/model.dsl"
train {
  i32 tokens[batch, seq] = mix(0.7 * bin("a.bin", u8), 0.3 * bin("b.bin", u8))
  loss = sum[batch, seq, vocab](tiny(tokens))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- images
include "std.dsl"
dim batch = 2, side = 8
train {
  image[batch, height = side, width = side] = mix(0.5 * images("a"), 0.5 * images("b"))
  loss = mean[batch, height, width](image)
}
# ---- sampler
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = mix(0.7 * next_token(bin("a.bin", u8)), 0.3 * next_token(bin("b.bin", u8)))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- huge
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(mix(1e30 * bin("a.bin", u8), bin("b.bin", u8)))
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
