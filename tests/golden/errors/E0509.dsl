# ---- function
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard attend.batch on data
  shard batch on data
}
# ---- place
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard mpl.ffn on data
  shard batch on data
}
