include "mini/train.dsl"
cluster c { gpus = 2; gpu = "cpu"; intra = link(450GB, 2) }
