# SPDX-License-Identifier: Apache-2.0
# Layouts of a mixture of experts for tests/oracle/layouts.json.
include "../../../examples/moe.dsl"
cluster oracle4 { gpus = 4; gpu = "cpu" }
parallel experts on oracle4 {
  mesh expert = 2, tensor = 2
  shard experts on expert
  shard kv, ffn, vocab on tensor
  shard seq on tensor
  shard batch on expert
}
