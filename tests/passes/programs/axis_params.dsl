# Each position of an axis has its own parameter, in a loop that is pipelined. The gradient of the loss is the same for
# all of them: what the last stage's loop begins with is a constant along the axis, what the first one gets is not.
include "std.dsl"
dim batch = 8, embed = 6, seq = 5, vocab = 10, layers = 4
model m(i32 tokens[batch, seq]) -> [batch, seq, embed] {
  param wte[vocab, embed] = normal(0.7)
  x = wte[vocab = tokens]
  repeat h in layers {
    r[batch, seq] = 0.0
    repeat e in embed {
      param p[] = normal(0.5)
      r = tanh(x[embed = e] * p)
      y[embed = e] = r
    }
    x = y
  }
  return x
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq, embed](log(1 + exp(m(tokens) - 0.2)))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
cluster c { gpus = 2; gpu = "cpu" }
parallel gpipe on c { mesh pipe = 2; pipeline h on pipe (schedule = "gpipe") }
parallel chunks on c { mesh pipe = 2; pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2); micro batch = 4 }
parallel split on c { mesh data = 2; shard batch on data; zero 1 on data }
