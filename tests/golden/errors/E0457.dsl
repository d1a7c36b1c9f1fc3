# ---- betas
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = adamw(lr = 0.1, betas = (0.9, 1.0))
  steps = 10
}
# ---- cosine
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = warmup_cosine(0.1, warmup = 10, total = 10))
  steps = 10
}
# ---- linear
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = warmup_linear(0.1, warmup = 2000, total = 1000))
  steps = 10
}
# ---- momentum
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1, momentum = 1.5)
  steps = 10
}
# ---- negative_rate
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = -0.1)
  steps = 10
}
# ---- muon
include "mini/model.dsl"
layer gained(x[batch, seq, embed]) -> [batch, seq, embed] {
  param gain[embed] = ones
  return x * gain
}
model net(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers { x = x + gained(x) }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](net(tokens)[vocab = labels])
  optimizer = muon(lr = 0.02)
  steps = 10
}
# ---- swa
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  average = swa(from = -1)
  steps = 10
}
