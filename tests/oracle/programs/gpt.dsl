# SPDX-License-Identifier: Apache-2.0
# Layouts of a GPT for tests/oracle/layouts.json.
include "../../../examples/quickstart.dsl"
cluster oracle2 { gpus = 2; gpu = "cpu" }
cluster oracle4 { gpus = 4; gpu = "cpu" }
cluster oracle8 { gpus = 8; gpu = "cpu" }
parallel tensor on oracle2 { mesh tensor = 2; shard heads, ffn, vocab on tensor }
parallel sequence on oracle4 {
  mesh data = 2, tensor = 2
  shard heads, ffn, vocab on tensor
  shard seq on tensor
  shard batch on data
  micro batch = 2
}
parallel two_d on oracle4 { mesh row = 2, column = 2; shard heads, ffn, vocab on column; shard embed on row }
parallel context on oracle8 {
  mesh data = 2, context = 2, tensor = 2
  shard heads, ffn, vocab on tensor
  shard seq on context, tensor
  shard batch on data
}
parallel ulysses on oracle4 {
  mesh context = 2, tensor = 2
  shard attend.heads on tensor, context
  shard heads, ffn, vocab on tensor
  shard seq on context
  micro batch = 2
}
