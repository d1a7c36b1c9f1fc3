# ---- above
include "mini/train.dsl"
device "mine" { units = 8; peak_f32 = 1TFLOP/s; bandwidth = 100GB/s; product = 1.2 }
cluster c { gpus = 2; gpu = "mine" }
# ---- time
include "mini/train.dsl"
device "mine" {
  units = 8
  peak_f32 = 1TFLOP/s
  bandwidth = 100GB/s
  memory = about(0.8, within = 0.1, source = "a guess")
  launch = about(3, within = 0.5)
}
cluster c { gpus = 2; gpu = "mine" }
# ---- circle
include "mini/train.dsl"
device "a" { like = "b" }
device "b" { like = "a" }
cluster c { gpus = 2; gpu = "a" }
# ---- like
include "mini/train.dsl"
device "mine" { like = "h300" }
cluster c { gpus = 2; gpu = "mine" }
