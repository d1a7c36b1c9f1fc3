# ---- fsdp
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  fsdp 3 on data
}
# ---- shrd
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shrd batch on data
  shard batch on data
}
