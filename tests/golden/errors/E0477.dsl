include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](shifted(tokens)[vocab = labels])
  optimizer = adamw(lr = 0.1)
  keep_zeros = ("wte", "s*")
  steps = 10
}
model shifted(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param shift[embed] = zeros
  return (wte[vocab = tokens] + shift) @embed wte
}
