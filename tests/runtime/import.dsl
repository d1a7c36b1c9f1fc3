# A model whose published form needs every rule of a names block (import.py).
include "std.dsl"
dim batch = 4, seq = 4, kseq = seq, vocab = 12, embed = 8, heads = 2, head = 4, ffn = 40, experts = 2
dim front = 1, layers = 2

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o, bias = false)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return down:linear[ffn, embed](silu(up:linear[embed, ffn](x, bias = false)), bias = false)
}
layer moe(x[batch, seq, embed]) -> [batch, seq, embed] {
  param wg[experts, embed, ffn], wu[experts, embed, ffn], wd[experts, ffn, embed] = normal(0.02)
  return sum[experts](silu(x @embed wg) * (x @embed wu) @ffn wd)
}
model published(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[seq, embed] = normal(0.02)
  param scale[embed] = 1
  x = (wte[vocab = tokens] + wpe) * scale
  repeat f in front { x = x + mlp(n1:rmsnorm[embed](x)) }
  repeat h in layers {
    repeat turn in (0, 1) {
      x = x + attention(n1:rmsnorm[embed](x))
    }
    x = x + moe(n2:rmsnorm[embed](x))
  }
  return norm:rmsnorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](published(tokens), labels))
  optimizer = adamw(lr = 1e-3)
  steps = 4
}
cluster four { nodes = 1; gpus = 4; gpu = "cpu" }
parallel tensor on four {
  mesh data = 2, tensor = 2
  shard batch on data
  shard heads, ffn on tensor
}
parallel zero on four {
  mesh data = 4
  shard batch on data
  zero 3 on data
}
parallel pipes on four {
  mesh data = 2, pipe = 2
  shard batch on data
  micro batch = 2
  zero 1 on data
  pipeline h on pipe
}
names huggingface on published {
  "model.embed_tokens.weight"[vocab, embed] = wte
  "lm_head.weight"[vocab, embed] = wte
  "model.positions.weight"[positions = 10, embed] = wpe[seq -> positions]
  "model.scale"[1, embed, 1] = scale
  "model.layers.{f}.norm.weight"[embed] = f.n1.gain
  "model.layers.{f}.mlp.up.weight"[ffn, embed] = f.mlp.up.w
  "model.layers.{f}.mlp.down.weight"[embed, ffn] = f.mlp.down.w
  "model.layers.{h + h + turn + front}.norm.weight"[embed] = h.turn.n1.gain
  "model.layers.{2 * h + 1}.attn.qkv.weight"[o, embed] = concat[o](h.turn.0.attention.wq.w[(heads, head) -> o], h.turn.0.attention.wk.w[(heads, head) -> o], h.turn.0.attention.wv.w[(heads, head) -> o])
  "model.layers.{2 * h + 1}.attn.qkv.bias"[o] = concat[o](h.turn.0.attention.wq.b0[(heads, head) -> o], h.turn.0.attention.wk.b0[(heads, head) -> o], h.turn.0.attention.wv.b0[(heads, head) -> o])
  "model.layers.{2 * h + turn: 1, 2, 3, 4}.attn.out.weight"[embed, o] = h.turn.attention.wo.w[(heads, head) -> o]
  "model.layers.{2 * h + 2}.attn.qkv.weight"[o, embed] = concat[c](h.turn.1.attention.wq.w[head -> c], h.turn.1.attention.wk.w[head -> c], h.turn.1.attention.wv.w[head -> c])[(heads, c) -> o]
  "model.layers.{2 * h + 2}.attn.qkv.bias"[o] = concat[c](h.turn.1.attention.wq.b0[head -> c], h.turn.1.attention.wk.b0[head -> c], h.turn.1.attention.wv.b0[head -> c])[(heads, c) -> o]
  "model.blocks.{h}.norm.weight"[embed] = h.n2.gain
  "model.blocks.{h}.experts.{experts}.gate_up.weight"[o, embed] = stack[two](h.moe.wg, h.moe.wu)[(ffn, two) -> o]
  "model.blocks.{h}.experts.{experts}.down.weight"[embed, ffn] = h.moe.wd
  "model.norm.weight"[embed] = norm.gain
  ignore "*.inv_freq", "model.unused"
  config "norm_eps", "rms_norm_eps" = 1e-6
  config "hidden_size" = embed
  config "hidden_act" = ("silu", "swish")
  config "tie_word_embeddings" = (true, none)
  config "rope_scaling.rope_type" = "llama3"
}
names stacked on published {
  "wte.first"[vocab = 5, embed] = wte
  "wte"[embed, vocab = 14] = wte
  "wpe"[seq = 3, embed = 8] = wpe
  "wpe.left"[seq, embed = 5] = wpe
  "scale"[embed] = scale
  "scale.first"[embed = 3] = scale
  "norms"[l, embed] = concat[l](f.n1.gain[f -> l], h.turn.0.n1.gain[h -> l], h.turn.1.n1.gain[h -> l])
  "{l + 7}.norm"[embed] = concat[l](h.n2.gain[h -> l], f.n1.gain[f -> l])
  "up"[embed, f, ffn] = f.mlp.up.w
  "down"[ffn, embed, 1] = f.mlp.down.w[(f, ffn) -> ffn]
  "q"[turn, h, head, heads, embed] = stack[turn](h.turn.0.attention.wq.w, h.turn.1.attention.wq.w)
  "k"[turn, h, head, heads, embed] = stack[turn](h.turn.0.attention.wk.w, h.turn.1.attention.wk.w)
  "v"[turn, h, head, heads, embed] = stack[turn](h.turn.0.attention.wv.w, h.turn.1.attention.wv.w)
  "o"[turn, h, head, heads, embed] = stack[turn](h.turn.0.attention.wo.w, h.turn.1.attention.wo.w)
  "bias"[turn, qkv, h, head, heads] = stack[turn](stack[qkv](h.turn.0.attention.wq.b0, h.turn.0.attention.wk.b0, h.turn.0.attention.wv.b0), stack[qkv](h.turn.1.attention.wq.b0, h.turn.1.attention.wk.b0, h.turn.1.attention.wv.b0))
  "gate.{two}"[h, embed, experts, ffn] = stack[two](h.moe.wg, h.moe.wu)
  "out.{2 * h + experts: 5, 0, 7, 3}"[ffn, embed] = h.moe.wd
  initial "norm.*"
}
