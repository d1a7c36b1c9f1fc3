# ---- mask
include "std.dsl"
dim batch = 2, seq = 16, vocab = 256, kinds = 2, embed = 4
model net(i32 tokens[batch, seq], i32 kind[batch, seq], bool valid[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed], seg[kinds, embed] = normal(0.3)
  return where(valid, wte[vocab = tokens] + seg[kinds = kind], 0) @embed wte
}
train {
  i32 tokens[batch, seq], i32 kind[batch, seq], bool valid[batch, seq], i32 labels[batch, seq], bool masked[batch, seq] =
    mlm(text("a.txt"), mask_id = 256)
  l = xent[vocab](net(tokens, kind, valid), labels)
  loss = sum[batch, seq](where(masked, l, 0)) / max(sum[batch, seq](f32(masked)), 1)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- number
include "std.dsl"
dim batch = 2, seq = 16, vocab = 256, embed = 4
model net(i32 tokens[batch, seq]) -> [batch, seq, embed] {
  param up[embed] = ones
  return f32(tokens) * up
}
train {
  i32 tokens[batch, seq], i32 kind[batch, seq], bool valid[batch, seq], i32 labels[batch, seq], bool masked[batch, seq] =
    mlm(text("a.txt"), mask_id = 0)
  loss = mean[batch, seq, embed](where(masked, net(tokens), 0))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- room
include "std.dsl"
dim batch = 2, src = 64, tgt = 8, vocab = 300, embed = 4
model net(i32 source[batch, src], i32 target[batch, tgt]) -> [batch, tgt, vocab] {
  param wte[vocab, embed] = normal(0.3)
  return (wte[vocab = target] + mean[src](wte[vocab = source])) @embed wte
}
train {
  i32 source[batch, src], i32 target[batch, tgt], i32 labels[batch, tgt], bool valid[batch, tgt] =
    span_corruption(text("a.txt"))
  l = xent[vocab](net(source, target), labels)
  loss = sum[batch, tgt](where(valid, l, 0)) / max(sum[batch, tgt](f32(valid)), 1)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- sentinels
include "std.dsl"
dim batch = 2, src = 64, tgt = 15, vocab = 128, embed = 4
model net(i32 source[batch, src], i32 target[batch, tgt]) -> [batch, tgt, vocab] {
  param wte[vocab, embed] = normal(0.3)
  return (wte[vocab = target] + mean[src](wte[vocab = source])) @embed wte
}
train {
  i32 source[batch, src], i32 target[batch, tgt], i32 labels[batch, tgt], bool valid[batch, tgt] =
    span_corruption(text("a.txt"))
  l = xent[vocab](net(source, target), labels)
  loss = sum[batch, tgt](where(valid, l, 0)) / max(sum[batch, tgt](f32(valid)), 1)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- spans
include "std.dsl"
dim batch = 2, src = 64, tgt = 15, vocab = 300, embed = 4
model net(i32 source[batch, src], i32 target[batch, tgt]) -> [batch, tgt, vocab] {
  param wte[vocab, embed] = normal(0.3)
  return (wte[vocab = target] + mean[src](wte[vocab = source])) @embed wte
}
train {
  i32 source[batch, src], i32 target[batch, tgt], i32 labels[batch, tgt], bool valid[batch, tgt] =
    span_corruption(text("a.txt"), mean_span = 0.5)
  l = xent[vocab](net(source, target), labels)
  loss = sum[batch, tgt](where(valid, l, 0)) / max(sum[batch, tgt](f32(valid)), 1)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
