# ---- shard
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe
  shard batch on pipe
  micro batch = 4
}
# ---- zero
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe
  zero 1 on pipe
  micro batch = 4
}
