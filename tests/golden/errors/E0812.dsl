# ---- ignored
include "mini/model.dsl"
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  i32 labels[batch, seq] = synthetic(-100, -1)
  z = tiny(tokens)
  loss = -sum[batch, seq](where(labels >= 0 and labels < size[vocab], z[vocab = labels], 0)) / sum[batch, seq](labels >= 0)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- bounded
include "mini/model.dsl"
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  i32 labels[batch, seq] = bin("labels.bin", u16)
  z = tiny(tokens)
  loss = sum[batch, seq](where(labels < 0, z[vocab = labels], 0)) / max(sum[batch, seq](labels < 0), 1)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- classes
include "std.dsl"
include "mini/model.dsl"
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  i32 labels[batch, seq] = synthetic(1000, 2000)
  loss = mean[batch, seq](xent[vocab](tiny(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- held_out
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("a.bin", u16))
  z = tiny(tokens)
  valid = f32(labels != 65535 and labels >= 256)
  ce = -z[vocab = labels % size[vocab]]
  loss = sum[batch, seq](ce * valid) / sum[batch, seq](valid)
  optimizer = sgd(lr = 0.1)
  eval = every(5, data = next_token(bin("b.bin", u8)))
  steps = 10
}
# ---- shared
include "mini/model.dsl"
fn share[b, t](x, valid) { return sum[b, t](x * valid) / sum[b, t](valid) }
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  i32 labels[batch, seq] = bin("labels.bin", u8)
  z = tiny(tokens)
  odd = share[batch, seq](z[vocab = labels % size[vocab]], f32(labels > 255))
  loss = share[batch, seq](z[vocab = labels % size[vocab]], f32(labels > 255)) ** 2
  metrics = odd
  optimizer = sgd(lr = 0.1)
  steps = 10
}
