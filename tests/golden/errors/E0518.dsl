# ---- level
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  zero 4 on data
}
# ---- twice
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  zero 1 on data
  zero 2 on data
}
