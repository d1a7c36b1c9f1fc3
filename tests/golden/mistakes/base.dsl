# A small GPT, as beginners write it: mistakes.txt has edits of it.
include "std.dsl"
dim batch = 8, seq = 64, kseq = seq, vocab = 256
dim layers = 3, embed = 96, heads = 4, head = embed // heads, ffn = 4 * embed

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return dropout(wo:linear[(heads, head), embed](o), 0.1)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  h = gelu(up:linear[embed, ffn](x))
  return dropout(down:linear[ffn, embed](h), 0.1)
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[seq, embed] = normal(0.02)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + mlp(ln2:layernorm[embed](x))
  }
  return head:linear[embed, vocab](ln_f:layernorm[embed](x))
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("my.txt", to = 0.9))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = warmup_cosine(1e-3, warmup = 20, total = 200, floor = 1e-4), clip = 1.0)
  eval = every(100, steps = 5, data = next_token(text("my.txt", from = 0.9)))
  steps = 200
}
cluster laptop { nodes = 1; gpus = 2; gpu = "cpu" }
parallel two on laptop {
  mesh data = 2
  shard batch on data
}
