# ---- h100
include "mini/train.dsl"
cluster c { gpus = 2; gpu = "h100" }
# ---- misspelt
include "mini/train.dsl"
cluster c { gpus = 2; gpu = "a100-80gb" }
