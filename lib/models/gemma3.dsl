# SPDX-License-Identifier: Apache-2.0
# Gemma 3 (Gemma Team, "Gemma 3 Technical Report", 2025), text: norms before and after each part, whose gains
# are stored less 1, and of queries and keys per head; five of six layers see the last `reach` positions only
# and have a rotary base of their own. The text part of models that also see images is in gemma3_images.dsl.
#
#   gemma3-270m  268,098,176  layers=18 embed=640 ffn=2048
#   gemma3-1b    999,885,952
include "parts.dsl"
dim batch = 8, seq = 4096, vocab = 262_144, layers = 26
dim embed = 1152, heads = 4, kv = 1, group = heads // kv, head = 256, ffn = 6912
constant norm_eps = 1e-6, reach = 512, interval = 6       # layers 5, 11, 17, .. see all positions
constant rope_theta = 1_000_000.0, rope_local_theta = 10_000.0, rope_factor = 1.0, query_scalar = 256

layer norm[d](x[..., d]) -> [..., d] {
  param gain[d] = zeros
  return x * rsqrt(mean[d](x * x) + norm_eps) * (1 + gain)
}
layer attention(x[batch, seq, embed], i32 h[]) -> [batch, seq, embed] {
  is_global = h % interval == interval - 1
  speed = where(is_global, frequencies(rope_theta) / rope_factor, frequencies(rope_local_theta))
  q = x |> wq:linear[embed, (kv, group, head)](bias = false) |> qn:norm[head] |> rotate(speed)
  k = x |> wk:linear[embed, (kv, head)](bias = false) |> kn:norm[head] |> rotate(speed)
  v = x |> wv:linear[embed, (kv, head)](bias = false)
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = query_scalar ** -0.5,
                              mask = iota[kseq] <= iota[seq] and (is_global or iota[seq] - iota[kseq] < reach))
  return wo:linear[(kv, group, head), embed](o, bias = false)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  g = gelu_tanh(gate:linear[embed, ffn](x, bias = false))
  return down:linear[ffn, embed](g * up:linear[embed, ffn](x, bias = false), bias = false)
}
model gemma3(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens] * sqrt(embed)
  repeat h in layers {
    x = x + n2:norm[embed](attention(n1:norm[embed](x), h))
    x = x + n4:norm[embed](mlp(n3:norm[embed](x)))
  }
  return last:norm[embed](x) @embed wte
}
names huggingface on gemma3 {
  "model.embed_tokens.weight"[vocab, embed] = wte
  "lm_head.weight"[vocab, embed] = wte
  "model.layers.{h}.input_layernorm.weight"[embed] = h.n1.gain
  "model.layers.{h}.self_attn.q_proj.weight"[o, embed] = h.attention.wq.w[(kv, group, head) -> o]
  "model.layers.{h}.self_attn.k_proj.weight"[o, embed] = h.attention.wk.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.v_proj.weight"[o, embed] = h.attention.wv.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.o_proj.weight"[embed, o] = h.attention.wo.w[(kv, group, head) -> o]
  "model.layers.{h}.self_attn.q_norm.weight"[head] = h.attention.qn.gain
  "model.layers.{h}.self_attn.k_norm.weight"[head] = h.attention.kn.gain
  "model.layers.{h}.post_attention_layernorm.weight"[embed] = h.n2.gain
  "model.layers.{h}.pre_feedforward_layernorm.weight"[embed] = h.n3.gain
  "model.layers.{h}.mlp.gate_proj.weight"[ffn, embed] = h.mlp.gate.w
  "model.layers.{h}.mlp.up_proj.weight"[ffn, embed] = h.mlp.up.w
  "model.layers.{h}.mlp.down_proj.weight"[embed, ffn] = h.mlp.down.w
  "model.layers.{h}.post_feedforward_layernorm.weight"[embed] = h.n4.gain
  "model.norm.weight"[embed] = last.gain
  config "model_type" = "gemma3_text"
  config "architectures" = ("Gemma3ForCausalLM", none)
  config "vocab_size" = vocab
  config "num_hidden_layers" = layers
  config "hidden_size" = embed
  config "num_attention_heads" = heads
  config "num_key_value_heads" = kv
  config "head_dim" = head
  config "intermediate_size" = ffn
  config "hidden_activation" = "gelu_pytorch_tanh"
  config "rms_norm_eps" = norm_eps
  config "tie_word_embeddings" = (true, none)
  config "rope_parameters.full_attention.rope_theta", "rope_theta" = rope_theta
  config "rope_parameters.sliding_attention.rope_theta", "rope_local_base_freq" = rope_local_theta
  config "rope_parameters.full_attention.rope_type", "rope_scaling.rope_type" =
    if rope_factor == 1 then ("default", none) else "linear"
  config "rope_parameters.sliding_attention.rope_type" = ("default", none)
  config "rope_parameters.full_attention.factor", "rope_scaling.factor" = (rope_factor, none)
  config "query_pre_attn_scalar" = query_scalar
  config "sliding_window" = reach
  config "sliding_window_pattern", "_sliding_window_pattern" = (interval, none)
  config "layer_types.{h}" = (if h % interval == interval - 1 then "full_attention" else "sliding_attention", none)
  config "attn_logit_softcapping" = none
  config "final_logit_softcapping" = none
  config "use_bidirectional_attention" = (false, none)
  config "attention_bias" = (false, none)
  config "attention_dropout" = (0, none)
}
