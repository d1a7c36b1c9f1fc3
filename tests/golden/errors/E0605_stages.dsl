include "mini/train.dsl"
cluster eight { gpus = 8; gpu = "cpu" }
parallel p on eight {
  mesh pipe = 8
  pipeline h on pipe
  micro batch = 8
}
