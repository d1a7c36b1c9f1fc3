# A small model for faulty configuration blocks.
dim batch = 8, seq = 6, vocab = 10, layers = 4, embed = 4, ffn = 8
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  param up[embed, ffn], down[ffn, embed] = normal(0.02)
  return max(x @embed up, 0) @ffn down
}
model tiny(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + mlp(x) }
  return x @embed wte
}
cluster pair { gpus = 2; gpu = "cpu" }
