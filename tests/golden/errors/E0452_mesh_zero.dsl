include "mini/train.dsl"
parallel p on pair {
  mesh data = 0
  shard batch on data
}
