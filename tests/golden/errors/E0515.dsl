# ---- none
include "mini/model.dsl"
parallel p on dgx { mesh data = 2; shard batch on data }
# ---- unknown
include "mini/train.dsl"
parallel p on pear {
  mesh data = 2
  shard batch on data
}
