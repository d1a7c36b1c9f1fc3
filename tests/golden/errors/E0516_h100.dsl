include "mini/train.dsl"
cluster c { gpus = 2; gpu = "h100" }
