# ---- apart
include "mini/model.dsl"
include "std.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](tiny(tokens), labels))
  optimizer = adamw(lr = 0.1)
  ramp = batch(from = 2, by = 4, over = 100)
  steps = 10
}
parallel p on pair { mesh data = 2; shard batch on data; micro batch = 4 }
# ---- micro
include "mini/model.dsl"
include "std.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](tiny(tokens), labels))
  optimizer = adamw(lr = 0.1)
  ramp = batch(from = 2, by = 2, over = 100)
  steps = 10
}
parallel p on pair { mesh data = 2; shard batch on data; micro batch = 2 }
# ---- other_axis
include "mini/model.dsl"
include "std.dsl"
dim pool = batch // 2, each = 2
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[pool, each, seq](xent[vocab](tiny(tokens), labels)[batch -> (pool, each)])
  optimizer = adamw(lr = 0.1)
  ramp = batch(from = 2, by = 2, over = 100)
  steps = 10
}
parallel p on pair { mesh data = 2; shard batch, pool on data; micro batch = 4 }
# ---- in_layer
include "mini/model.dsl"
include "std.dsl"
layer shrink(z[batch, seq, vocab]) -> [batch, seq, vocab] { return z / size[batch] }
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](shrink(tiny(tokens)), labels))
  optimizer = adamw(lr = 0.1)
  ramp = batch(from = 2, by = 2, over = 100)
  steps = 10
}
parallel p on pair { mesh data = 2; shard batch on data; micro batch = 4 }
# ---- other_way
include "mini/model.dsl"
include "std.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = sum[batch, seq](xent[vocab](tiny(tokens), labels)) / (size[batch] + 1)
  optimizer = adamw(lr = 0.1)
  ramp = batch(from = 2, by = 2, over = 100)
  steps = 10
}
parallel p on pair { mesh data = 2; shard batch on data; micro batch = 4 }
# ---- ops
include "mini/model.dsl"
include "std.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  scale = if size[batch] > 8 then 2 else 1
  loss = scale * mean[batch, seq](xent[vocab](tiny(tokens), labels))
  optimizer = adamw(lr = 0.1)
  ramp = batch(from = 2, by = 2, over = 100)
  steps = 10
}
parallel p on pair { mesh data = 2; shard batch on data; micro batch = 4 }
# ---- operands
include "mini/model.dsl"
include "std.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  logits = tiny(tokens)
  a, b = mean[batch, seq](xent[vocab](logits, labels)), mean[batch, seq, vocab](logits)
  loss = if size[batch] > 8 then a - b else b - a
  optimizer = adamw(lr = 0.1)
  ramp = batch(from = 2, by = 2, over = 100)
  steps = 10
}
parallel p on pair { mesh data = 2; shard batch on data; micro batch = 4 }
# ---- places
include "mini/model.dsl"
include "std.dsl"
axis place
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  first = size[batch] // 8
  losses = xent[vocab](tiny(tokens), labels)[seq -> place]
  loss = mean[batch, place](losses[place = first .. first + 2])
  optimizer = adamw(lr = 0.1)
  ramp = batch(from = 2, by = 2, over = 100)
  steps = 10
}
parallel p on pair { mesh data = 2; shard batch on data; micro batch = 4 }
# ---- by_chance
include "mini/model.dsl"
include "std.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = sum[batch, seq](xent[vocab](tiny(tokens), labels)) / max(size[batch], 4)
  optimizer = adamw(lr = 0.1)
  ramp = batch(from = 2, by = 2, over = 100)
  steps = 10
}
parallel p on pair { mesh data = 2; shard batch on data; micro batch = 4 }
