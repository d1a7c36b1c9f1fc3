# SPDX-License-Identifier: Apache-2.0
# Preferences (dpo.py): a model that block `base` trains, and blocks that go on from it with a copy of it as reference, with
# all its parameters and with adapters.
include "std.dsl"
dim batch = 4, pair = 2, seq = 24, kseq = seq, vocab = 512, embed = 16, heads = 2, head = 8, ffn = 20, layers = 2
constant beta = 0.3, drop = 0.0

model net(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.4)
  x = wte[vocab = tokens]
  repeat h in layers {
    n = n1:rmsnorm[embed](x)
    q = wq:linear[embed, (heads, head)](n, bias = false, std = 0.3)
    k = wk:linear[embed, (heads, head)](n, bias = false, std = 0.3)[seq -> kseq]
    v = wv:linear[embed, (heads, head)](n, bias = false, std = 0.3)[seq -> kseq]
    o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
    x = x + wo:linear[(heads, head), embed](o, bias = false, std = 0.3)
    u = n2:rmsnorm[embed](x) |> up:linear[embed, ffn](std = 0.3) |> gelu
    x = x + dropout(down:linear[ffn, embed](u, std = 0.3), drop)
  }
  return out:rmsnorm[embed](x) @embed wte
}
names files on net {
  "wte"[vocab, embed] = wte
  "h.{h}.n1"[embed] = h.n1.gain
  "h.{h}.q"[o, embed] = h.wq.w[(heads, head) -> o]
  "h.{h}.k"[o, embed] = h.wk.w[(heads, head) -> o]
  "h.{h}.v"[o, embed] = h.wv.w[(heads, head) -> o]
  "h.{h}.o"[embed, o] = h.wo.w[(heads, head) -> o]
  "h.{h}.n2"[embed] = h.n2.gain
  "h.{h}.up.w"[ffn, embed] = h.up.w
  "h.{h}.up.b"[ffn] = h.up.b0
  "h.{h}.down.w"[embed, ffn] = h.down.w
  "h.{h}.down.b"[embed] = h.down.b0
  "out"[embed] = out.gain
}
fn logp(z[batch, seq, vocab], i32 labels[batch, seq]) -> [batch] { return -sum[seq](xent[vocab](z, labels)) }

train base {
  i32 tokens[batch, seq], i32 labels[batch, seq] = chat("texts.jsonl", tokenizer = "tok", end = "<|endoftext|>")
  loss = sum[batch, seq](xent[vocab](net(tokens), labels)) / sum[batch, seq](f32(labels >= 0))
  optimizer = adamw(lr = 1e-2)
  steps = 3
}
train dpo {
  i32 tokens[batch, pair, seq], i32 labels[batch, pair, seq] =
    chat("pairs.jsonl", tokenizer = "tok", end = "<|endoftext|>")
  policy = net
  reference = reference:copy(policy)
  chosen, rejected = tokens[pair = 0], tokens[pair = 1]
  of_chosen, of_rejected = labels[pair = 0], labels[pair = 1]
  reward_chosen = beta * (logp(policy(chosen), of_chosen) - logp(reference(chosen), of_chosen))
  reward_rejected = beta * (logp(policy(rejected), of_rejected) - logp(reference(rejected), of_rejected))
  loss = mean[batch](softplus(reward_rejected - reward_chosen))
  accuracy = mean[batch](f32(reward_chosen > reward_rejected))
  gained = mean[batch](reward_chosen)
  lost = mean[batch](reward_rejected)
  told = mean[batch](logp(reference(chosen), of_chosen))
  metrics = accuracy, gained, lost, told
  # adapters: dpo.py puts an `adapt` line here
  optimizer = sgd(lr = 0.05, momentum = 0.5)
  steps = 6
}
cluster two { gpus = 2; gpu = "cpu" }
parallel zero on two { mesh data = 2; shard batch on data; zero 3 on data; micro batch = 2 }
parallel tensor on two { mesh tensor = 2; shard heads, ffn on tensor }
