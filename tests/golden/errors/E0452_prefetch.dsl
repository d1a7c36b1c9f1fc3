include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  zero 3 on data (prefetch = 65)
}
