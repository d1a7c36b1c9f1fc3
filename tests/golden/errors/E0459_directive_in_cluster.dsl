include "mini/train.dsl"
cluster c { gpus = 2; gpu = "cpu"; mesh data = 2 }
