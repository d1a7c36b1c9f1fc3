# GPT-2 124M, one text of at most 128 tokens, with a cache: what a token costs (codes.py).
include "std.dsl"
dim batch = 1, seq = 128, kseq = seq, vocab = 50257
dim layers = 12, embed = 768, heads = 12, head = embed // heads, ffn = 4 * embed

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
model gpt2(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[seq, embed] = normal(0.01)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + mlp(ln2:layernorm[embed](x))
  }
  return ln_f:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](gpt2(tokens), labels))
  optimizer = sgd(lr = 1e-3)
  steps = 1
  generate = cached(rows = 1, chunk = 16)
}
