# SPDX-License-Identifier: Apache-2.0
# Llama 3.1 405B on 16,384 H100, laid out as in Grattafiori et al., "The Llama 3 Herd of Models" (2024), 3.3.2: sequences
# of 8,192 tokens, 8-way tensor and sequence parallel inside a machine, 16 stages in rounds of one layer, 128 replicas. The
# first and the last piece have the table and the head alone.
include "models/llama.dsl"
dim batch = 2048, seq = 8192, vocab = 128256, layers = 126
dim embed = 16384, heads = 128, kv = 8, ffn = 53248
constant rope_theta = 500_000.0, rope_factor = 8.0
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("corpus/*.bin", u32))
  loss = mean[batch, seq](xent[vocab](llama(tokens), labels))
  optimizer = adamw(lr = warmup_cosine(8e-5, warmup = 8000, total = 1_200_000, floor = 8e-7),
                    betas = (0.9, 0.95), eps = 1e-8, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = f32)
  steps = 1_200_000
}
cluster pod { nodes = 2048; gpus = 8; gpu = "h100-sxm"; intra = link(450GB/s, 2us); inter = link(50GB/s, 5us) }
parallel published on pod {
  mesh pipe = 16, data = 128, tensor = 8
  shard kv, ffn, vocab on tensor
  shard seq on tensor
  shard batch on data
  pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 8)
  micro batch = 16
  zero 1 on data
}
parallel best on pod { auto (minimise = step_time, memory = 0.92) }
