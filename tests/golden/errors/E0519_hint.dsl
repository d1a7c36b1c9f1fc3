include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  shard batch on data
  remat h (keep = mlpp)
}
