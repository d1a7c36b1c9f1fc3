include "mini/model.dsl"
parallel p on dgx { mesh data = 2; shard batch on data }
