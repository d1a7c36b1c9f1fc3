# ---- clusters
include "mini/train.dsl"
cluster pair { gpus = 4; gpu = "cpu" }
# ---- parallels
include "mini/train.dsl"
parallel p on pair { mesh data = 2; shard batch on data }
parallel p on pair { mesh data = 2; shard batch on data }
