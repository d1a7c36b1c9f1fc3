include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  mesh data = 2
  shard batch on data
}
