# ---- group
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](mixed(tokens)[vocab = labels])
  optimizer = adamw(lr = 0.1)
  quantize = int8("wte", group = 7)
  steps = 10
}
model mixed(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  return wte[vocab = tokens] @embed wte
}
# ---- no_product
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](mixed(tokens)[vocab = labels])
  optimizer = adamw(lr = 0.1)
  quantize = int4("*", group = 4)
  steps = 10
}
model mixed(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param shift[embed] = zeros
  return (wte[vocab = tokens] + shift) @embed wte
}
# ---- other_readers
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](mixed(tokens)[vocab = labels])
  optimizer = adamw(lr = 0.1)
  quantize = int8("wte", group = 4)
  steps = 10
}
model mixed(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  return wte[vocab = tokens] @embed (wte * 2)
}
# ---- axes
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](mixed(tokens)[vocab = labels])
  optimizer = adamw(lr = 0.1)
  quantize = int8("wte", group = 4)
  steps = 10
}
model mixed(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  z = wte[vocab = tokens] @embed wte
  return (z @vocab wte) @embed wte
}
# ---- two_kinds
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](mixed(tokens)[vocab = labels])
  optimizer = adamw(lr = 0.1)
  quantize = (int8("wte", group = 4), int4("w*", group = 4))
  steps = 10
}
model mixed(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  return wte[vocab = tokens] @embed wte
}
