# SPDX-License-Identifier: Apache-2.0
# A small GPT over bytes. `./quickstart` trains it on the texts of the package `fortunes`; for your own text:
#
#   dtc examples/quickstart.dsl -o out/mine.plan
#   dtrun out/mine.plan --data fortunes.txt=/path/to/my.txt --save out/mine
include "std.dsl"
dim batch = 16, seq = 64, kseq = seq, vocab = 256
dim layers = 4, embed = 128, heads = 4, head = embed // heads, ffn = 4 * embed

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x, bias = false)
  k = wk:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o, std = 0.02 / sqrt(2 * layers), bias = false)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn](bias = false) |> gelu_tanh
           |> down:linear[ffn, embed](std = 0.02 / sqrt(2 * layers), bias = false)
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[seq, embed] = normal(0.02)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + mlp(ln2:layernorm[embed](x))
  }
  return ln_f:layernorm[embed](x) @embed wte         # tied: same name, same parameter
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("fortunes.txt", to = 0.9))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = warmup_cosine(2e-3, warmup = 100, total = 1000, floor = 2e-4),
                    betas = (0.9, 0.99), decay = 0.1, decay_if = rank > 1, clip = 1.0)
  eval = every(500, steps = 50, data = next_token(text("fortunes.txt", from = 0.9)))
  save = every(500, keep = 2)
  seed = 1
  steps = 1000
}
cluster laptop { nodes = 1; gpus = 2; gpu = "cpu"; intra = link(10GB/s, 2us) }
parallel two on laptop {
  mesh data = 2
  shard batch on data
}
