include "mini/model.dsl"
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  weights[seq, batch] = synthetic(0, 1)
  loss = sum[batch, seq](weights * max[vocab](tiny(tokens)))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
