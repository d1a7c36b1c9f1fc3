include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  zero 4 on data
}
