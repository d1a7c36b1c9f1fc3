# ---- chunks
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 3)
  micro batch = 4
}
# ---- stages
include "mini/train.dsl"
cluster eight { gpus = 8; gpu = "cpu" }
parallel p on eight {
  mesh pipe = 8
  pipeline h on pipe
  micro batch = 8
}
