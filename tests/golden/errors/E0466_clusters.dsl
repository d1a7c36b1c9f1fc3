include "mini/train.dsl"
cluster pair { gpus = 4; gpu = "cpu" }
