include "mini/model.dsl"
parallel two on pair { mesh data = 2; shard batch on data (ring = true) }
