# ---- h100
include "mini/train.dsl"
cluster c { gpus = 2; gpu = "h100" }
# ---- misspelt
include "mini/train.dsl"
cluster c { gpus = 2; gpu = "a100-80gb" }
# ---- own
include "mini/train.dsl"
device "my-card" { units = 8; peak_f32 = 1TFLOP/s; bandwidth = 100GB/s }
cluster c { gpus = 2; gpu = "my-cart" }
# ---- sibling
include "mini/train.dsl"
cluster c { gpus = 2; gpu = "h101" }
# ---- upper
include "mini/train.dsl"
cluster c { gpus = 2; gpu = "A100" }
