include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline hs on pipe
  micro batch = 8
}
