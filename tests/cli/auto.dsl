# SPDX-License-Identifier: Apache-2.0
# A program small enough to train here, and layouts that leave things open.
include "std.dsl"
dim batch = 16, seq = 32, kseq = seq, vocab = 64, layers = 4, embed = 32, heads = 4, head = embed // heads, ffn = 4 * embed

layer block(x[batch, seq, embed]) -> [batch, seq, embed] {
  n = n1:layernorm[embed](x)
  q = wq:linear[embed, (heads, head)](n)
  k = wk:linear[embed, (heads, head)](n)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](n)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  x = x + wo:linear[(heads, head), embed](o)
  return x + (n2:layernorm[embed](x) |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed])
}
model lm(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers { x = block(x) }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](lm(tokens), labels))
  optimizer = adamw(lr = constant(1e-3))
  steps = 3
}
cluster two { nodes = 1; gpus = 2; gpu = "cpu" }
cluster eight { nodes = 1; gpus = 8; gpu = "a100-40g" }
cluster seven { nodes = 1; gpus = 7; gpu = "cpu" }
parallel odd on seven { auto }
parallel open on two { auto }
parallel pipes on eight { mesh pipe = 4, data = 2; micro batch = 4; auto }
parallel tensors on eight { mesh tp = 4, dp = 2; remat h; auto }
parallel shards on eight { mesh left = 4, right = 2; shard heads on left; shard batch on right; auto }
parallel small on eight { auto (memory = 0.001) }
parallel unclear on eight { mesh left = 4, right = 2; auto }
parallel twice on eight { mesh dp = 4, data = 2; auto }
cluster pairs { nodes = 1; gpus = 2; gpu = "a100-40g" }
parallel many on pairs { auto (gpus = (2, 16), minimise = device_hours) }
parallel between on pairs { auto (gpus = (3, 3)) }
parallel both on pairs { mesh data = 2; shard batch on data; auto (gpus = 2) }
parallel least on eight { auto (minimise = memory) }
parallel written on two { mesh data = 2; shard batch on data }

# Nodes of two kinds.
device "slow" { like = "cpu"; peak_f32 = 39GFLOP/s; bandwidth = 10GB/s }
device "tiny" { like = "a100-40g"; capacity = 600MiB }
cluster uneven { nodes = (1, 1); gpus = 1; gpu = ("cpu", "slow") }
cluster kinds { nodes = (1, 2); gpus = 4; gpu = ("h100-sxm", "a100-40g") }
cluster cramped { nodes = (1, 1); gpus = 1; gpu = ("a100-40g", "tiny") }
parallel cut on uneven { mesh pipe = 2; pipeline h on pipe; micro batch = 4 }
parallel even on two { mesh pipe = 2; pipeline h on pipe; micro batch = 4 }
parallel kept on uneven { mesh pipe = 2; pipeline h on pipe; auto }
parallel stages on kinds { mesh pipe = 3, data = 4; pipeline h on pipe; shard batch on data; micro batch = 4 }
parallel across on kinds { mesh data = 4, pipe = 3; pipeline h on pipe; shard batch on data; micro batch = 4 }
parallel chosen on kinds { auto }
parallel counted on kinds { auto (gpus = (4, 16)) }
parallel tight on cramped { mesh pipe = 2; pipeline h on pipe; micro batch = 4 }
