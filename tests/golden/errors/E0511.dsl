# ---- mesh_on
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2 on data
  shard batch on data
}
# ---- micro
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  micro batch
}
# ---- remat_both
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  remat h (keep = mlp, drop = mlp)
}
# ---- shard_without_on
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  shard ffn
}
# ---- stream_number
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  stream vocab = 2
}
# ---- stream_none
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  stream none, vocab
}
# ---- default_twice
include "mini/train.dsl"
parallel p on pair { mesh data = 2; shard batch on data; default }
parallel q on pair { mesh data = 2; shard batch on data; default }
# ---- default_with_operand
include "mini/train.dsl"
parallel p on pair { mesh data = 2; shard batch on data; default batch }
