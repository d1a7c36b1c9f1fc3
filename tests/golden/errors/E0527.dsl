# ---- split
include "std.dsl"
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](tiny(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
parallel two on pair { mesh tensor = 2; shard vocab on tensor; stream vocab }
# ---- read_twice
include "std.dsl"
include "mini/model.dsl"
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = mean[batch, seq](xent[vocab](z, labels)) + 0.001 * mean[batch, seq, vocab](z ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
parallel two on pair { mesh data = 2; shard batch on data; stream vocab }
# ---- no_function
include "std.dsl"
include "mini/model.dsl"
train {
  i32 tokens[batch, seq] = synthetic(0, vocab)
  loss = mean[batch, seq, vocab](tiny(tokens))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
parallel two on pair { mesh data = 2; shard batch on data; stream vocab }
