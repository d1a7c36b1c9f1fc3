include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (schedule = "zb_v", chunks = 1)
  micro batch = 4
}
