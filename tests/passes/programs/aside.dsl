# Two of the pieces of a pipeline are what is in front of its loop and behind it. `extra` is added up beside x, so that its gradient
# is the same in all iterations: no stage hands it to another one, each makes it anew.
include "std.dsl"
dim batch = 8, seq = 6, embed = 8, ffn = 8, vocab = 12, layers = 2
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab], f32[] {
  param wte[vocab, embed] = normal(0.7)
  x = wte[vocab = tokens]
  extra = f32(0)
  repeat h in layers {
    x = down:linear[ffn, embed](up:linear[embed, ffn](x, std = 0.354))
    extra = extra + 0.1 * mean[batch, seq, embed](x * x)
  }
  return head:linear[embed, vocab](x, std = 0.354), extra
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  y, extra = m(tokens)
  loss = mean[batch, seq](xent[vocab](y, labels)) + 0.1 * extra
  optimizer = sgd(lr = 0.1)
  steps = 3
}
cluster eight { gpus = 8; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel gpipe on eight { mesh pipe = 4, data = 2; shard batch on data; pipeline h on pipe (schedule = "gpipe") }
parallel turns on eight {
  mesh pipe = 4, data = 2; shard batch on data; pipeline h on pipe (schedule = "1f1b"); micro batch = 2; zero 1 on data
}
parallel late on four { mesh pipe = 4; pipeline h on pipe (schedule = "zb_h1"); micro batch = 4 }
