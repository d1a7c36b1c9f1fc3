# SPDX-License-Identifier: Apache-2.0
# What optimizers do in every layout (optimizers.py): matrices of a loop, some with a list of axes on one side, vectors, a
# table outside, a number.
include "std.dsl"
dim batch = 8, seq = 4, vocab = 16, embed = 8, heads = 2, head = 4, layers = 4
layer block(x[batch, seq, embed]) -> [batch, seq, embed] {
  u = n:rmsnorm[embed](x) |> up:linear[embed, (heads, head)]
  return x + (gelu(u) |> down:linear[(heads, head), embed])
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  param heat[] = ones
  x = wte[vocab = tokens]
  repeat h in layers { x = block(x) }
  return heat * (x @embed wte)
}
fn softened[all](p[..., all], g[..., all], lr) -> [..., all] {
  state drift[...] = zeros                             # a number for each layer, of sums that meet no others
  drift = 0.5 * drift + sum[all](g)
  grad_norm = sqrt(g * g + 0.01)                       # nobody's business
  return p - lr * g / grad_norm
}
train groups {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = warmup_cosine(0.01, warmup = 5, total = 20), decay = 0.1, decay_if = rank >= 2, clip = 1.0)
  tables = sgd(lr = 0.1, momentum = 0.9, params = ("wte", "heat"), own_norm = true, clip = 0.5)
  shifts = lion(lr = 1e-3, params = "*.down.b0")
  gains = softened(lr = 0.1, params = ("*.n.*", "*.up.b0"))
  steps = 20
}
train whole {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = lamb(lr = 0.02, decay = 0.1, decay_if = rank >= 2, clip = 1.0)
  steps = 20
}
train factored {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adafactor(lr = 0.05, decay = 0.01, threshold = 0.5)
  steps = 20
}
train orthogonal {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = muon(lr = 0.02, momentum = 0.9, clip = 1.0)
  rest = adamw(lr = 0.01, params = ("wte", "heat", "*.b0", "*.n.*"))
  steps = 20
}
cluster four { gpus = 4; gpu = "cpu" }
parallel dp on four { mesh data = 4; shard batch on data; micro batch = 2 }
parallel z1 on four { mesh data = 4; shard batch on data; zero 1 on data }
parallel z2 on four { mesh data = 4; shard batch on data; micro batch = 2; zero 2 on data }
parallel z3 on four { mesh data = 4; shard batch on data; micro batch = 2; zero 3 on data }
parallel tensor on four { mesh data = 2, tp = 2; shard heads, vocab on tp; shard batch on data }
parallel rows on four { mesh data = 2, tp = 2; shard heads, vocab on tp; shard batch on data; zero 1 on data }
parallel wide on four { mesh data = 2, tp = 2; shard embed on tp; shard batch on data }
parallel cut on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline h on pipe }
parallel pipe on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline h on pipe; zero 1 on data }
