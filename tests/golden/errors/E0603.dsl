# ---- misspelt
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (schedule = "1f1")
  micro batch = 4
}
# ---- unknown
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (schedule = "fastest")
  micro batch = 4
}
