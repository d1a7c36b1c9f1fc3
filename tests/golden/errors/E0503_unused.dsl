include "mini/train.dsl"
cluster four { gpus = 4; gpu = "cpu" }
parallel p on four {
  mesh data = 2, tensor = 2
  shard batch on data
}
