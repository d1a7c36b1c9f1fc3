# SPDX-License-Identifier: Apache-2.0
# Averages of parameters (average.py): blocks that train alike, without an average and with each kind of it.
include "std.dsl"
dim batch = 4, seq = 6, vocab = 20, embed = 8, ffn = 12, layers = 4

model net(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.5)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + (n:rmsnorm[embed](x) |> up:linear[embed, ffn](std = 0.3) |> gelu |> down:linear[ffn, embed](std = 0.3))
  }
  return out:rmsnorm[embed](x) @embed wte
}
names files on net {
  "wte"[vocab, embed] = wte
  "h.{h}.n"[embed] = h.n.gain
  "h.{h}.up.w"[embed, ffn] = h.up.w
  "h.{h}.up.b"[ffn] = h.up.b0
  "h.{h}.down.w"[ffn, embed] = h.down.w
  "h.{h}.down.b"[embed] = h.down.b0
  "out"[embed] = out.gain
}
fn half(average[...], p[...]) -> [...] { return (average + p) / 2 }
train plain {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u8))
  loss = mean[batch, seq](xent[vocab](net(tokens), labels))
  optimizer = adamw(lr = 2e-2)
  frozen = "out.*"
  eval = every(2, steps = 2, data = next_token(bin("held.bin", u8)))
  save = every(1)
  steps = 5
}
train ema {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u8))
  loss = mean[batch, seq](xent[vocab](net(tokens), labels))
  optimizer = adamw(lr = 2e-2)
  average = ema(0.75)
  frozen = "out.*"
  eval = every(2, steps = 2, data = next_token(bin("held.bin", u8)))
  save = every(1)
  steps = 5
}
train swa {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u8))
  loss = mean[batch, seq](xent[vocab](net(tokens), labels))
  optimizer = adamw(lr = 2e-2)
  average = swa(from = 2)
  frozen = "out.*"
  steps = 5
}
train skipping { # the first loss scale is too large for f16
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u8))
  loss = 200 * mean[batch, seq](xent[vocab](net(tokens), labels))
  precision = mixed(compute = f16, loss_scale = dynamic)
  optimizer = adamw(lr = 2e-2)
  average = ema(0.75)
  frozen = "out.*"
  save = every(1)
  steps = 12
}
train own {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u8))
  loss = mean[batch, seq](xent[vocab](net(tokens), labels))
  precision = mixed(compute = bf16, params = bf16, master = f32)
  tables = sgd(lr = 0.3, momentum = 0.9, params = "wte")
  optimizer = adamw(lr = 2e-2)
  average = half()
  frozen = "out.*"
  steps = 5
}
cluster two { gpus = 2; gpu = "cpu" }
parallel zero1 on two { mesh data = 2; shard batch on data; zero 1 on data }
parallel zero3 on two { mesh data = 2; shard batch on data; zero 3 on data (prefetch = 1); micro batch = 2 }
parallel tensor on two { mesh tensor = 2; shard ffn, vocab on tensor }
parallel pipe on two { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
