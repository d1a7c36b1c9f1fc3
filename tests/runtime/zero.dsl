# SPDX-License-Identifier: Apache-2.0
include "std.dsl"
dim batch = 8, seq = 4, vocab = 16, embed = 8, ffn = 16, layers = 3
layer block(x[batch, seq, embed]) -> [batch, seq, embed] {
  y = up:linear[embed, ffn](x)
  return x + down:linear[ffn, embed](max(y, 0))
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  x = wte[vocab = tokens]
  repeat h in layers { x = block(x) }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 0.01, betas = (0.9, 0.95), decay = 0.1, decay_if = rank >= 2, clip = 1.0)
  steps = 20
}
cluster four { gpus = 4; gpu = "cpu" }
parallel z0 on four { mesh data = 4; shard batch on data; micro batch = 2 }
parallel z1 on four { mesh data = 4; shard batch on data; micro batch = 2; zero 1 on data }
parallel z2 on four { mesh data = 4; shard batch on data; micro batch = 2; zero 2 on data }
parallel z3 on four { mesh data = 4; shard batch on data; micro batch = 2; zero 3 on data }
parallel small on four { mesh data = 4; shard batch on data; micro batch = 2; zero 3 on data (bucket = 256B) }
parallel hybrid on four { mesh data = 2, fsdp = 2; shard batch on data, fsdp; micro batch = 2; zero 3 on fsdp; zero 1 on data }
parallel tensor on four { mesh data = 2, tp = 2; shard ffn, vocab on tp; shard batch on data; zero 2 on data, tp }
parallel pipe on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline h on pipe; zero 3 on data }
parallel ahead1 on four { mesh data = 4; shard batch on data; micro batch = 2; zero 3 on data (prefetch = 1) }
parallel ahead2 on four { mesh data = 4; shard batch on data; micro batch = 2; zero 3 on data (prefetch = 2) }
parallel micro4 on four { mesh data = 2, rest = 2; shard batch on data; micro batch = 4; zero 3 on data, rest }
parallel ahead_micro4 on four { mesh data = 2, rest = 2; shard batch on data; micro batch = 4; zero 3 on data, rest (prefetch = 2) }
parallel pipe_ahead on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline h on pipe; zero 3 on data (prefetch = 1) }
# Pieces of several layers, with -D layers=8:
parallel chunks on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2); zero 3 on data }
parallel chunks_ahead on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2); zero 3 on data (prefetch = 1) }
parallel apart on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline h on pipe (schedule = "zb_h1"); zero 3 on data }
parallel apart_ahead on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline h on pipe (schedule = "zb_h1"); zero 3 on data (prefetch = 2) }
