# ---- end
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (cuts = 4)
  micro batch = 4
}
# ---- number
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (cuts = (1, 2))
  micro batch = 4
}
# ---- order
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (schedule = "zb_v", cuts = (3, 2, 1))
  micro batch = 4
}
