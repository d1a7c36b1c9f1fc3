# ---- all
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  micro batch = 2
}
# ---- unused
include "mini/train.dsl"
cluster four { gpus = 4; gpu = "cpu" }
parallel p on four {
  mesh data = 2, tensor = 2
  shard batch on data
}
