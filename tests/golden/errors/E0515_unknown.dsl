include "mini/train.dsl"
parallel p on pear {
  mesh data = 2
  shard batch on data
}
