# ---- mlp
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  shard mlp.batch on data
}
# ---- parameter
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard ffn on data
  shard up.ffn on data
  shard batch on data
}
