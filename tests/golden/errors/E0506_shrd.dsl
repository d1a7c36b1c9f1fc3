include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shrd batch on data
  shard batch on data
}
