# ---- default
include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe
}
# ---- few
include "mini/train.dsl"
cluster four { gpus = 4; gpu = "cpu" }
parallel p on four {
  mesh pipe = 4
  pipeline h on pipe
  micro batch = 2
}
