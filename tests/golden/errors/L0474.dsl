# ---- bounded
include "std.dsl"
include "mini/model.dsl"
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  i32 labels[batch, seq] = synthetic(0, vocab)
  z = tiny(tokens)
  loss = -mean[batch, seq](z[vocab = labels])
  odd = sum[batch, seq](where(labels < 0, z[vocab = labels], 0)) / max(sum[batch, seq](labels < 0), 1)
  metrics = odd
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- parts
include "std.dsl"
include "mini/model.dsl"
fn parts[b, t](x, valid) {
  return sum[b, t](x * valid), sum[b, t](x * valid) / sum[b, t](valid)
}
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  i32 labels[batch, seq] = bin("labels.bin", u8)
  z = tiny(tokens)
  total, odd = parts[batch, seq](z[vocab = labels % size[vocab]], f32(labels > 255))
  loss = mean[batch, seq](xent[vocab](z, tokens)) + total
  metrics = odd
  optimizer = sgd(lr = 0.1)
  steps = 10
}
