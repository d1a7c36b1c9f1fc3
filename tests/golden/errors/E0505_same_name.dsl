include "mini/train.dsl"
parallel p on pair {
  mesh data = 2, data = 1
  shard batch on data
}
