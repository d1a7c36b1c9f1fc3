# SPDX-License-Identifier: Apache-2.0
# ModernBERT (Warner et al., "Smarter, Better, Faster, Longer", 2024), which fills in masked tokens: rotary
# positions, a gated MLP, norms and products without biases. Every third layer sees all positions; the others see
# those at most `local // 2` away, and have a rotary base of their own.
#
#   modernbert-base    149,655,232
#   modernbert-large   395,881,664  layers=28 embed=1024 heads=16 ffn=2624
include "parts.dsl"
dim batch = 8, seq = 1024, vocab = 50_368, layers = 22, normed = layers - 1
dim embed = 768, inner = embed, heads = 12, head = embed // heads, ffn = 1152
constant norm_eps = 1e-5, local = 128, interval = 3         # layers 0, 3, 6, .. see all positions
constant rope_theta = 160_000.0, rope_local_theta = 10_000.0

fn standard[d](x[..., d]) -> [..., d] {
  u = x - mean[d](x)
  return u * rsqrt(mean[d](u * u) + norm_eps)
}
layer norm[d](x[..., d]) -> [..., d] {
  param gain[d] = ones
  return standard[d](x) * gain
}
layer attention(x[batch, seq, embed], bool valid[batch, seq], i32 h[]) -> [batch, seq, embed] {
  is_global = h % interval == 0
  speed = where(is_global, frequencies(rope_theta), frequencies(rope_local_theta))
  q = x |> wq:linear[embed, (heads, head)](bias = false) |> rotate(speed)
  k = x |> wk:linear[embed, (heads, head)](bias = false) |> rotate(speed)
  v = x |> wv:linear[embed, (heads, head)](bias = false)
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = head ** -0.5,
                              mask = valid[seq -> kseq] and (is_global or abs(iota[seq] - iota[kseq]) <= local // 2))
  return wo:linear[(heads, head), embed](o, bias = false, std = 0.02 / sqrt(2 * layers))
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  g = gelu(gate:linear[embed, ffn](x, bias = false))
  return down:linear[ffn, embed](g * up:linear[embed, ffn](x, bias = false), bias = false, std = 0.02 / sqrt(2 * layers))
}
# valid: false for padding, which no position sees.
model modernbert(i32 tokens[batch, seq], bool valid[batch, seq] = true) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param gains[normed, embed] = ones                         # of the norms before attention; layer 0 has none
  x = n0:norm[embed](wte[vocab = tokens])
  repeat h in layers {
    n = where(h == 0, x, standard[embed](x) * gains[normed = h - 1])
    x = x + attention(n, valid, h)
    x = x + mlp(n2:norm[embed](x))
  }
  x = last:norm[embed](x) |> turn:linear[embed, inner](bias = false) |> gelu |> turn_n:norm[inner]
  param b0[vocab] = zeros
  return x[inner -> embed] @embed wte + b0
}
names huggingface on modernbert {
  "model.embeddings.tok_embeddings.weight"[vocab, embed] = wte
  "model.embeddings.norm.weight"[embed] = n0.gain
  "model.layers.{normed + 1}.attn_norm.weight"[embed] = gains
  "model.layers.{h}.attn.Wqkv.weight"[o, embed] =
    concat[o](h.attention.wq.w[(heads, head) -> o], h.attention.wk.w[(heads, head) -> o],
              h.attention.wv.w[(heads, head) -> o])
  "model.layers.{h}.attn.Wo.weight"[embed, o] = h.attention.wo.w[(heads, head) -> o]
  "model.layers.{h}.mlp_norm.weight"[embed] = h.n2.gain
  "model.layers.{h}.mlp.Wi.weight"[o, embed] = concat[o](h.mlp.gate.w[ffn -> o], h.mlp.up.w[ffn -> o])
  "model.layers.{h}.mlp.Wo.weight"[embed, ffn] = h.mlp.down.w
  "model.final_norm.weight"[embed] = last.gain
  "head.dense.weight"[inner, embed] = turn.w
  "head.norm.weight"[inner] = turn_n.gain
  "decoder.weight"[vocab, embed] = wte
  "decoder.bias"[vocab] = b0
  ignore "model.rotary_emb.*inv_freq", "model.layers.*.rotary_emb.inv_freq"
  config "model_type" = "modernbert"
  config "architectures" = ("ModernBertForMaskedLM", none)
  config "vocab_size" = vocab
  config "num_hidden_layers" = layers
  config "hidden_size" = embed
  config "num_attention_heads" = heads
  config "intermediate_size" = ffn
  config "hidden_activation" = ("gelu", none)
  config "classifier_activation" = ("gelu", none)
  config "norm_eps" = norm_eps
  config "norm_bias" = (false, none)
  config "mlp_bias" = (false, none)
  config "attention_bias" = (false, none)
  config "classifier_bias" = (false, none)
  config "decoder_bias" = (true, none)
  config "tie_word_embeddings" = (true, none)
  config "local_attention" = if local == 128 then (local, none) else local
  config "global_attn_every_n_layers" = (interval, none)
  config "layer_types.{h}" = (if h % interval == 0 then "full_attention" else "sliding_attention", none)
  config "rope_parameters.full_attention.rope_theta", "global_rope_theta" =
    if rope_theta == 160_000 then (rope_theta, none) else rope_theta
  config "rope_parameters.sliding_attention.rope_theta", "local_rope_theta" =
    if rope_local_theta == 10_000 then (rope_local_theta, none) else rope_local_theta
  config "rope_parameters.full_attention.rope_type", "rope_scaling.rope_type" = ("default", none)
  config "rope_parameters.sliding_attention.rope_type" = ("default", none)
  config "attention_dropout" = (0, none)
}
