include "mini/train.dsl"
cluster four { gpus = 4; gpu = "cpu" }
parallel p on four {
  mesh tensor = 4
  shard vocab on tensor
}
