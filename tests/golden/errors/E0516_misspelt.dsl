include "mini/train.dsl"
cluster c { gpus = 2; gpu = "a100-80gb" }
