# SPDX-License-Identifier: Apache-2.0
# The text part of Gemma 3 models that also see images, whose files have an image encoder besides. It is the
# model of gemma3.dsl.
#
#   gemma3-4b    3,880,263,168
#   gemma3-12b  11,766,034,176  layers=48 embed=3840 heads=16 kv=8 ffn=15360
#   gemma3-27b  27,009,346,304  layers=62 embed=5376 heads=32 kv=16 head=128 ffn=21504 query_scalar=168
include "gemma3.dsl"
dim vocab = 262_208, layers = 34, embed = 2560, heads = 8, kv = 4, ffn = 10_240
constant reach = 1024, rope_factor = 8.0

# Members that config.json lacks are those of Gemma3TextConfig of transformers.
names images on gemma3 {
  "language_model.model.embed_tokens.weight"[vocab, embed] = wte
  "language_model.lm_head.weight"[vocab, embed] = wte
  "language_model.model.layers.{h}.input_layernorm.weight"[embed] = h.n1.gain
  "language_model.model.layers.{h}.self_attn.q_proj.weight"[o, embed] = h.attention.wq.w[(kv, group, head) -> o]
  "language_model.model.layers.{h}.self_attn.k_proj.weight"[o, embed] = h.attention.wk.w[(kv, head) -> o]
  "language_model.model.layers.{h}.self_attn.v_proj.weight"[o, embed] = h.attention.wv.w[(kv, head) -> o]
  "language_model.model.layers.{h}.self_attn.o_proj.weight"[embed, o] = h.attention.wo.w[(kv, group, head) -> o]
  "language_model.model.layers.{h}.self_attn.q_norm.weight"[head] = h.attention.qn.gain
  "language_model.model.layers.{h}.self_attn.k_norm.weight"[head] = h.attention.kn.gain
  "language_model.model.layers.{h}.post_attention_layernorm.weight"[embed] = h.n2.gain
  "language_model.model.layers.{h}.pre_feedforward_layernorm.weight"[embed] = h.n3.gain
  "language_model.model.layers.{h}.mlp.gate_proj.weight"[ffn, embed] = h.mlp.gate.w
  "language_model.model.layers.{h}.mlp.up_proj.weight"[ffn, embed] = h.mlp.up.w
  "language_model.model.layers.{h}.mlp.down_proj.weight"[embed, ffn] = h.mlp.down.w
  "language_model.model.layers.{h}.post_feedforward_layernorm.weight"[embed] = h.n4.gain
  "language_model.model.norm.weight"[embed] = last.gain
  ignore "vision_tower.*", "multi_modal_projector.*"
  config "model_type" = "gemma3"
  config "architectures" = ("Gemma3ForConditionalGeneration", none)
  config "text_config.vocab_size" = (vocab, none)
  config "text_config.num_hidden_layers" = (layers, none)
  config "text_config.hidden_size" = (embed, none)
  config "text_config.num_attention_heads" = (heads, none)
  config "text_config.num_key_value_heads" = (kv, none)
  config "text_config.head_dim" = (head, none)
  config "text_config.intermediate_size" = (ffn, none)
  config "text_config.hidden_activation" = ("gelu_pytorch_tanh", none)
  config "text_config.rms_norm_eps" = if norm_eps == 1e-6 then (norm_eps, none) else norm_eps
  config "text_config.tie_word_embeddings" = (true, none)
  config "text_config.rope_parameters.full_attention.rope_theta", "text_config.rope_theta" =
    if rope_theta == 1_000_000 then (rope_theta, none) else rope_theta
  config "text_config.rope_parameters.sliding_attention.rope_theta", "text_config.rope_local_base_freq" =
    if rope_local_theta == 10_000 then (rope_local_theta, none) else rope_local_theta
  config "text_config.rope_parameters.full_attention.rope_type", "text_config.rope_scaling.rope_type" =
    if rope_factor == 1 then ("default", none) else "linear"
  config "text_config.rope_parameters.sliding_attention.rope_type" = ("default", none)
  config "text_config.rope_parameters.full_attention.factor", "text_config.rope_scaling.factor" = (rope_factor, none)
  config "text_config.query_pre_attn_scalar" = if query_scalar == 256 then (query_scalar, none) else query_scalar
  config "text_config.sliding_window" = reach
  config "text_config.sliding_window_pattern", "text_config._sliding_window_pattern" = (interval, none)
  config "text_config.layer_types.{h}" =
    (if h % interval == interval - 1 then "full_attention" else "sliding_attention", none)
  config "text_config.attn_logit_softcapping" = none
  config "text_config.final_logit_softcapping" = none
  config "text_config.use_bidirectional_attention" = (false, none)
  config "text_config.attention_bias" = (false, none)
  config "text_config.attention_dropout" = (0, none)
}
