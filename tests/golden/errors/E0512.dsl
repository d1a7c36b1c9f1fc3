# ---- axis
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch, batch on data
}
# ---- loop
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h, layers on pipe (cuts = (5))
  micro batch = 8
}
# ---- mesh_axis
include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data, data
}
