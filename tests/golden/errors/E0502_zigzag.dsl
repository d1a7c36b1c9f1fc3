include "mini/train.dsl"
parallel p on pair {
  mesh context = 2
  shard seq on context (order = zigzag)
}
