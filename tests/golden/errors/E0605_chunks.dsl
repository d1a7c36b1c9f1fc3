include "mini/train.dsl"
parallel p on pair {
  mesh pipe = 2
  pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 3)
  micro batch = 4
}
