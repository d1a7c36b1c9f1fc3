# ---- mesh_zero
include "mini/train.dsl"
parallel p on pair {
  mesh data = 0
  shard batch on data
}
# ---- prefetch
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  zero 3 on data (prefetch = 65)
}
# ---- steps_zero
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 0
}
# ---- kinds
include "mini/model.dsl"
cluster mixed { nodes = 4; gpus = 8; gpu = ("h100-sxm", "a100-80g") }
# ---- kinds_of_both_sorts
include "mini/model.dsl"
cluster mixed { nodes = (4, 8); gpus = 8; gpu = ("h100-sxm", "cpu") }
# ---- kinds_too_many
include "mini/model.dsl"
cluster mixed { nodes = (1, 1, 1, 1, 1); gpus = 8; gpu = ("v100", "l40s", "h200", "b200", "h800") }
# ---- loss_scale
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  precision = mixed(compute = bf16, loss_scale = 1e39)
  optimizer = sgd(lr = 0.1)
  steps = 10
}
# ---- separator
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(csv("a.csv", separator = "; "))
  loss = -sum[batch, seq](tiny(tokens)[vocab = labels])
}
# ---- columns_without_names
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(csv("a.csv", columns = "id", header = false))
  loss = -sum[batch, seq](tiny(tokens)[vocab = labels])
}
# ---- image_scaled_twice
include "std.dsl"
dim batch = 2, side = 8, rgb = 3
train {
  image[batch, height = side, width = side, rgb] = images("a", resize = 10, stretch)
  loss = mean[batch, height, width, rgb](image)
}
# ---- image_zoom
include "std.dsl"
dim batch = 2, side = 8, rgb = 3
train {
  image[batch, height = side, width = side, rgb] = images("a", pad = 2, crop = zoom)
  loss = mean[batch, height, width, rgb](image)
}
# ---- image_numbers
include "std.dsl"
dim batch = 2, side = 8, rgb = 3
train {
  image[batch, height = side, width = side, rgb] = images("a", mean = (0.5, 0.5), std = 0)
  loss = mean[batch, height, width, rgb](image)
}
# ---- image_pad
include "std.dsl"
dim batch = 2, side = 8, rgb = 3
train {
  image[batch, height = side, width = side, rgb] = images("a", pad = 2_000_000, crop = random)
  loss = mean[batch, height, width, rgb](image)
}
# ---- codes_in_a_byte
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  quantize = int4("*", group = 3)
  steps = 10
}
