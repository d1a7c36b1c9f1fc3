# ---- misspelt
include "mini/train.dsl"
cluster c { gpus = 2; gpu = "a100-80g"; stack = megatron_2012 }
