# SPDX-License-Identifier: Apache-2.0
# GPT with 1,008 billion parameters on 3,072 GPUs, laid out as in Narayanan et al., "Efficient Large-Scale Language
# Model Training on GPU Clusters Using Megatron-LM" (2021), table 1: 8-way tensor and sequence parallel inside a
# machine, 64 pipeline stages of two layers, 6 replicas.
include "std.dsl"
dim batch = 3072, seq = 2048, kseq = seq, vocab = 51200
dim layers = 128, embed = 25600, heads = 160, head = embed // heads, ffn = 4 * embed

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o, std = 0.006 / sqrt(2 * layers))
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn](std = 0.006) |> gelu_tanh
           |> down:linear[ffn, embed](std = 0.006 / sqrt(2 * layers))
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.006)
  param wpe[seq, embed] = normal(0.006)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + mlp(ln2:layernorm[embed](x))
  }
  return ln_f:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("corpus/*.bin", u16))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = warmup_cosine(6e-5, warmup = 2000, total = 75_000, floor = 6e-6),
                    betas = (0.9, 0.95), eps = 1e-8, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = f32)
  steps = 75_000
}
cluster superpod { nodes = 384; gpus = 8; gpu = "a100-80g"; intra = link(300GB/s, 2us); inter = link(25GB/s, 5us) }
parallel megatron on superpod {
  mesh pipe = 64, data = 6, tensor = 8                 # outermost (slowest links) first
  shard heads, ffn, vocab on tensor                    # tensor parallel
  shard seq on tensor                                  # sequence parallel where tensor is free
  shard batch on data
  pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2)
  micro batch = 512
  zero 1 on data
  remat h (keep = attend)
}
