include "mini/train.dsl"
parallel p on pair {
  mesh data = 2
  micro batch = 2
}
