# SPDX-License-Identifier: Apache-2.0
# Layouts in which the judge rounds to 16 bits.
include "../../examples/quickstart.dsl"
cluster pair { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
cluster eight { gpus = 8; gpu = "cpu" }
parallel tensor on four {
  mesh data = 2, tensor = 2
  shard heads, ffn, vocab on tensor
  shard seq on tensor
  shard batch on data
  micro batch = 2
}
parallel ulysses on pair { mesh context = 2; shard attend.heads on context; shard seq on context }
parallel ring on pair { mesh context = 2; shard seq on context; shard kseq on context (ring = true) }
parallel shared on four { mesh data = 4; shard batch on data; zero 3 on data; micro batch = 2; remat h }
parallel stages on eight {
  mesh pipe = 2, data = 2, tensor = 2
  shard heads, ffn, vocab on tensor
  shard batch on data
  pipeline h on pipe (schedule = "zb_v")
  micro batch = 2
  zero 2 on data
}
