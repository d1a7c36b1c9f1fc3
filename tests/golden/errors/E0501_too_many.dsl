include "mini/train.dsl"
parallel p on pair {
  mesh data = 4
  shard batch on data
}
