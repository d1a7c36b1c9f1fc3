include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h, layers on pipe (cuts = (5))
  micro batch = 8
}
