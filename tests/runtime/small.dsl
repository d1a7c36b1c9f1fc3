# SPDX-License-Identifier: Apache-2.0
# A GPT small enough to train for fifty steps in a second. Text: numbers.txt beside this file's copy.
include "std.dsl"
dim batch = 8, seq = 16, kseq = seq, vocab = 128
dim layers = 2, embed = 16, heads = 2, head = embed // heads, ffn = 2 * embed

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x, bias = false)
  k = wk:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o, bias = false)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn]() |> gelu_tanh |> down:linear[ffn, embed]()
}
model small(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[seq, embed] = normal(0.02)
  x = dropout(wte[vocab = tokens] + wpe, 0.1)
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + mlp(ln2:layernorm[embed](x))
  }
  return ln_f:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("numbers.txt", to = 0.9))
  loss = mean[batch, seq](xent[vocab](small(tokens), labels))
  optimizer = adamw(lr = warmup_cosine(1e-2, warmup = 5, total = 50, floor = 1e-3),
                    betas = (0.9, 0.99), decay = 0.1, decay_if = rank > 1, clip = 1.0)
  eval = every(25, steps = 4, data = next_token(text("numbers.txt", from = 0.9)))
  save = every(20, keep = 2)
  seed = 3
  steps = 50
}
cluster here { nodes = 1; gpus = 1; gpu = "cpu"; intra = link(10GB/s, 2us) }
cluster here2 { nodes = 1; gpus = 2; gpu = "cpu"; intra = link(10GB/s, 2us) }
cluster here4 { nodes = 1; gpus = 4; gpu = "cpu"; intra = link(10GB/s, 2us) }
cluster here8 { nodes = 1; gpus = 8; gpu = "cpu"; intra = link(10GB/s, 2us) }
parallel d2 on here2 { mesh data = 2; shard batch on data }
parallel d4 on here4 { mesh data = 4; shard batch on data }
parallel d8 on here8 { mesh data = 8; shard batch on data }
parallel d2m2 on here2 { mesh data = 2; shard batch on data; micro batch = 2 }
parallel m4 on here { mesh data = 1; shard batch on data; micro batch = 4 }
