include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  shard ffn
}
