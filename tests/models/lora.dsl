# SPDX-License-Identifier: Apache-2.0
# LoRA (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021) of rank 8 on GPT-2's queries, keys and values: all
# else is frozen. 124,734,720 parameters, 294,912 of which are trained.
include "std.dsl"
dim batch = 8, seq = 1024, kseq = seq, vocab = 50_257, layers = 12, embed = 768, heads = 12, head = embed // heads
dim ffn = 4 * embed, three = 3, low = 8

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[embed, three, heads, head] = normal(0.3)
  param b[three, heads, head] = normal(0.1)
  param lora_a[embed, low] = normal(0.3)
  param lora_b[low, three, heads, head] = zeros
  q, k, v = unstack[three](x @embed w + b + 2 * (x @embed lora_a) @low lora_b)     # scaled by alpha / rank = 2
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o, std = 0.3)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn](std = 0.3) |> gelu_tanh |> down:linear[ffn, embed](std = 0.3)
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  param wpe[seq, embed] = normal(0.1)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + mlp(ln2:layernorm[embed](x))
  }
  return ln_f:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  frozen = ("wte", "wpe", "ln_f.*", "h.*.ln1.*", "h.*.ln2.*", "h.*.mlp.*", "h.*.attention.w", "h.*.attention.b", "h.*.attention.wo.*")
  optimizer = adamw(lr = 2e-4, decay = 0)
  steps = 10_000
}
