include "mini/train.dsl"
parallel p on pair {
  micro batch = 2
}
