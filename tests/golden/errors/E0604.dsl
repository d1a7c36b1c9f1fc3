# ---- 1f1b
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (chunks = 2)
  micro batch = 4
}
# ---- zb_v
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (schedule = "zb_v", chunks = 1)
  micro batch = 4
}
