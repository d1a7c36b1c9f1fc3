# SPDX-License-Identifier: Apache-2.0
# A model that train block `base` trains, and adapters of others (adapters.py): in a loop, in one of two equal layers, in an
# unrolled loop, around an instance that is called twice.
include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, vocab = 32, embed = 16, heads = 2, head = 8, mid = 12, layers = 4

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x, std = 0.2)
  k = wk:linear[embed, (heads, head)](x, std = 0.2)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x, std = 0.2)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o, std = 0.2, bias = false)
}
layer pair(x[batch, seq, embed]) -> [batch, seq, embed] {
  f = up:linear[embed, mid]
  return gelu(f(x, std = 0.2) + f(0.5 * x, std = 0.2)) |> down:linear[mid, embed](std = 0.2)
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  x = wte[vocab = tokens]
  x = x + left:pair(x) + right:pair(x)
  repeat h in layers { x = x + attention(n:rmsnorm[embed](x)) }
  repeat t in (0, 1) { x = x + step:pair(x) }
  return out:rmsnorm[embed](x) @embed wte
}
layer stretched[from, to](x[..., from], y[..., to], w[from, to]) -> [..., to] {     # y by the length of columns of w
  param factor[to] = ones
  return y * (factor + 0 * sum[from](w))
}
train base {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u16))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = 3e-3)
  eval = every(1000, data = next_token(bin("held.bin", u16)))
  steps = 3
}
train tune {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u16))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  adapt "h.*.wq", "h.*.wv", "h.*.wo", "right.down", "t.1.*:linear" = lora(rank = 2, alpha = 6)
  trained = "h.*.n.*"
  optimizer = adamw(lr = 3e-3)
  eval = every(1000, data = next_token(bin("held.bin", u16)))
  steps = 6
}
train wide {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u16))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  adapt "h.*.wq" = wide:lora(rank = 3, drop = 0.1, std = 0.1)
  adapt "*.up" = ia3
  adapt "*.down" = stretched()
  adapt "h.*.wo" = dora(rank = 1)
  frozen = "*.wide.a"
  optimizer = sgd(lr = 3e-3)
  steps = 6
}
cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel tensor on two { mesh tensor = 2; shard heads, mid, vocab on tensor }
parallel zero on two { mesh data = 2; shard batch on data; zero 3 on data; micro batch = 2 }
parallel pipe on four { mesh pipe = 2, tensor = 2; shard heads, mid on tensor; pipeline h on pipe; micro batch = 2 }

names plain on gpt {
  "wte"[vocab, embed] = wte
  "out"[embed] = out.gain
  "left.up.weight"[embed, mid] = left.up.w
  "left.up.b"[mid] = left.up.b0
  "left.down.weight"[mid, embed] = left.down.w
  "left.down.b"[embed] = left.down.b0
  "right.up.weight"[embed, mid] = right.up.w
  "right.up.b"[mid] = right.up.b0
  "right.down.weight"[mid, embed] = right.down.w
  "right.down.b"[embed] = right.down.b0
  "step.{t}.up.weight"[embed, mid] = t.step.up.w
  "step.{t}.up.b"[mid] = t.step.up.b0
  "step.{t}.down.weight"[mid, embed] = t.step.down.w
  "step.{t}.down.b"[embed] = t.step.down.b0
  "h.{h}.n"[embed] = h.n.gain
  "h.{h}.wq.weight"[embed, o] = h.attention.wq.w[(heads, head) -> o]
  "h.{h}.wk.weight"[embed, o] = h.attention.wk.w[(heads, head) -> o]
  "h.{h}.wv.weight"[embed, o] = h.attention.wv.w[(heads, head) -> o]
  "h.{h}.wq.b"[o] = h.attention.wq.b0[(heads, head) -> o]
  "h.{h}.wk.b"[o] = h.attention.wk.b0[(heads, head) -> o]
  "h.{h}.wv.b"[o] = h.attention.wv.b0[(heads, head) -> o]
  "h.{h}.wo.weight"[embed, o] = h.attention.wo.w[(heads, head) -> o]
}
