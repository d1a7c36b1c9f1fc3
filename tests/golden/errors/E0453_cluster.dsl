include "mini/train.dsl"
cluster c { nodes = 2 }
