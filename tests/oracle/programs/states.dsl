# SPDX-License-Identifier: Apache-2.0
# A layout of a program with states for tests/oracle/layouts.json.
include "../../sweep/states.dsl"
cluster oracle4 { gpus = 4; gpu = "cpu" }
parallel split on oracle4 {
  mesh data = 2, tensor = 2
  shard ffn, classes on tensor
  shard embed on tensor
  shard batch, pool on data
  micro batch = 2
}
