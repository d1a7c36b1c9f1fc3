# ---- dim
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard layers on data
  shard batch on data
}
# ---- label
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch, h on data
}
