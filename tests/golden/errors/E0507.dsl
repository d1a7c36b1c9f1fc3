# ---- axis
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch, sek on data
}
# ---- micro
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  micro bath = 2
}
