# ---- one_unnamed
include "mini/model.dsl"
train  {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](tiny(tokens)[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
}
train fast {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](tiny(tokens)[vocab = labels])
  optimizer = sgd(lr = 0.2)
  steps = 20
}
# ---- two_trains
include "mini/model.dsl"
train slow {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](tiny(tokens)[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
}
train fast {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = -sum[batch, seq](tiny(tokens)[vocab = labels])
  optimizer = sgd(lr = 0.2)
  steps = 20
}
