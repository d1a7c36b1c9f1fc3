# ---- misspelt
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on dato
}
# ---- zero
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  zero 1 on tensor
}
