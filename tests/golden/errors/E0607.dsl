# ---- two
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe
  pipeline h on pipe
  micro batch = 4
}
# ---- two_axes
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2, data = 1
  pipeline h on pipe
  pipeline h on data
  micro batch = 4
}
