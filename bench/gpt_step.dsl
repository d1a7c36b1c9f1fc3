# The training step that bench/step_vs_pytorch measures: GPT, 4 layers, width 256, 8 heads, context 256, batch 8.
include "std.dsl"
dim batch = 8, seq = 256, kseq = seq, vocab = 256
dim layers = 4, embed = 256, heads = 8, head = embed // heads, ffn = 4 * embed

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn] |> gelu_tanh |> down:linear[ffn, embed]
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[seq, embed] = normal(0.02)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + mlp(ln2:layernorm[embed](x))
  }
  return ln_f:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = constant(1e-3), betas = (0.9, 0.999), eps = 1e-8, decay = 0.0)
  steps = 30
}
cluster two_cores { nodes = 1; gpus = 2; gpu = "cpu" }
parallel ranks2 on two_cores {
  mesh data = 2
  shard batch on data
}
