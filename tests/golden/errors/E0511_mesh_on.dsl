include "mini/train.dsl"
parallel p on pair {
  mesh data = 2 on data
  shard batch on data
}
