# ---- product
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2, tensor = 2
  shard batch on data
  shard ffn on tensor
}
# ---- too_many
include "mini/train.dsl"
parallel p on pair {
  mesh data = 4
  shard batch on data
}
