include "mini/train.dsl"
cluster c { gpus = 2; gpu = "cpu"; colour = 3; node = 2 }
