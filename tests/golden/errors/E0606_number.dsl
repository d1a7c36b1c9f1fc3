include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (cuts = (1, 2))
  micro batch = 4
}
