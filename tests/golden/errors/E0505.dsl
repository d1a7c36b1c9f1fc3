# ---- none
include "mini/train.dsl"
parallel p on pair {
  micro batch = 2
}
# ---- same_name
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2, data = 1
  shard batch on data
}
# ---- two_lines
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  mesh data = 2
  shard batch on data
}
