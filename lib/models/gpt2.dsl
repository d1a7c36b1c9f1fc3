# SPDX-License-Identifier: Apache-2.0
# GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): learned positions,
# layer norms before each part, tied embeddings.
#
#   gpt2           124,439,808
#   gpt2-medium    354,823,168  layers=24 embed=1024 heads=16
#   gpt2-large     774,030,080  layers=36 embed=1280 heads=20
#   gpt2-xl      1,557,611,200  layers=48 embed=1600 heads=25
include "std.dsl"
dim batch = 8, seq = 1024, kseq = seq, positions = 1024, vocab = 50_257
dim layers = 12, embed = 768, heads = 12, head = embed // heads, ffn = 4 * embed
constant norm_eps = 1e-5, drop = 0.0                       # the published models were trained with drop = 0.1

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o, std = 0.02 / sqrt(2 * layers)) |> dropout(drop)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn] |> gelu_tanh
           |> down:linear[ffn, embed](std = 0.02 / sqrt(2 * layers)) |> dropout(drop)
}
model gpt2(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[positions, embed] = normal(0.02)
  place = if seq <= positions then iota[seq] else refuse("`seq` is longer than the table of `positions`")
  x = wte[vocab = tokens] + wpe[positions = place] |> dropout(drop)
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x, eps = norm_eps))
    x = x + mlp(ln2:layernorm[embed](x, eps = norm_eps))
  }
  return ln_f:layernorm[embed](x, eps = norm_eps) @embed wte
}
# What transformers writes; then the files of openai-community, which have no prefix.
names huggingface on gpt2 {
  "transformer.wte.weight"[vocab, embed] = wte
  "transformer.wpe.weight"[positions, embed] = wpe
  "transformer.h.{h}.ln_1.weight"[embed] = h.ln1.gain
  "transformer.h.{h}.ln_1.bias"[embed] = h.ln1.shift
  "transformer.h.{h}.attn.c_attn.weight"[embed, o] =
    concat[o](h.attention.wq.w[(heads, head) -> o], h.attention.wk.w[(heads, head) -> o],
              h.attention.wv.w[(heads, head) -> o])
  "transformer.h.{h}.attn.c_attn.bias"[o] =
    concat[o](h.attention.wq.b0[(heads, head) -> o], h.attention.wk.b0[(heads, head) -> o],
              h.attention.wv.b0[(heads, head) -> o])
  "transformer.h.{h}.attn.c_proj.weight"[o, embed] = h.attention.wo.w[(heads, head) -> o]
  "transformer.h.{h}.attn.c_proj.bias"[embed] = h.attention.wo.b0
  "transformer.h.{h}.ln_2.weight"[embed] = h.ln2.gain
  "transformer.h.{h}.ln_2.bias"[embed] = h.ln2.shift
  "transformer.h.{h}.mlp.c_fc.weight"[embed, ffn] = h.mlp.up.w
  "transformer.h.{h}.mlp.c_fc.bias"[ffn] = h.mlp.up.b0
  "transformer.h.{h}.mlp.c_proj.weight"[ffn, embed] = h.mlp.down.w
  "transformer.h.{h}.mlp.c_proj.bias"[embed] = h.mlp.down.b0
  "transformer.ln_f.weight"[embed] = ln_f.gain
  "transformer.ln_f.bias"[embed] = ln_f.shift
  config "model_type" = "gpt2"
  config "architectures" = ("GPT2LMHeadModel", none)
  config "vocab_size" = vocab
  config "n_positions" = positions
  config "n_layer" = layers
  config "n_embd" = embed
  config "n_head" = heads
  config "n_inner" = if ffn == 4 * embed then (ffn, none) else ffn
  config "activation_function" = ("gelu_new", none)
  config "layer_norm_epsilon" = norm_eps
  config "scale_attn_weights" = (true, none)
  config "scale_attn_by_inverse_layer_idx" = (false, none)
  config "add_cross_attention" = (false, none)
  config "tie_word_embeddings" = (true, none)
}
names published on gpt2 {
  "wte.weight"[vocab, embed] = wte
  "wpe.weight"[positions, embed] = wpe
  "h.{h}.ln_1.weight"[embed] = h.ln1.gain
  "h.{h}.ln_1.bias"[embed] = h.ln1.shift
  "h.{h}.attn.c_attn.weight"[embed, o] =
    concat[o](h.attention.wq.w[(heads, head) -> o], h.attention.wk.w[(heads, head) -> o],
              h.attention.wv.w[(heads, head) -> o])
  "h.{h}.attn.c_attn.bias"[o] =
    concat[o](h.attention.wq.b0[(heads, head) -> o], h.attention.wk.b0[(heads, head) -> o],
              h.attention.wv.b0[(heads, head) -> o])
  "h.{h}.attn.c_proj.weight"[o, embed] = h.attention.wo.w[(heads, head) -> o]
  "h.{h}.attn.c_proj.bias"[embed] = h.attention.wo.b0
  "h.{h}.ln_2.weight"[embed] = h.ln2.gain
  "h.{h}.ln_2.bias"[embed] = h.ln2.shift
  "h.{h}.mlp.c_fc.weight"[embed, ffn] = h.mlp.up.w
  "h.{h}.mlp.c_fc.bias"[ffn] = h.mlp.up.b0
  "h.{h}.mlp.c_proj.weight"[ffn, embed] = h.mlp.down.w
  "h.{h}.mlp.c_proj.bias"[embed] = h.mlp.down.b0
  "ln_f.weight"[embed] = ln_f.gain
  "ln_f.bias"[embed] = ln_f.shift
  ignore "h.*.attn.bias", "h.*.attn.masked_bias"              # masks
  config "model_type" = "gpt2"
  config "architectures" = ("GPT2LMHeadModel", none)
  config "vocab_size" = vocab
  config "n_positions" = positions
  config "n_layer" = layers
  config "n_embd" = embed
  config "n_head" = heads
  config "n_inner" = if ffn == 4 * embed then (ffn, none) else ffn
  config "activation_function" = ("gelu_new", none)
  config "layer_norm_epsilon" = norm_eps
  config "scale_attn_weights" = (true, none)
  config "scale_attn_by_inverse_layer_idx" = (false, none)
  config "add_cross_attention" = (false, none)
  config "tie_word_embeddings" = (true, none)
}
