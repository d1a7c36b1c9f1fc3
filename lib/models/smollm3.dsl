# SPDX-License-Identifier: Apache-2.0
# SmolLM 3 (Bakouch et al., "SmolLM3: smol, multilingual, long-context reasoner", 2025): the layers of Llama,
# of which every fourth has no positions. SmolLM 2 is in llama.dsl.
#
#   smollm3-3b  3,075,098,624
include "parts.dsl"
dim batch = 8, seq = 4096, vocab = 128_256, layers = 36
dim embed = 2048, heads = 16, kv = 4, group = heads // kv, head = embed // heads, ffn = 11_008
constant norm_eps = 1e-6, rope_theta = 5_000_000.0, tied = true
constant interval = 4                                      # of layers without positions: numbers 3, 7, 11, ..

layer attention(x[batch, seq, embed], i32 h[]) -> [batch, seq, embed] {
  speed = where(h % interval == interval - 1, 0, frequencies(rope_theta))
  q = x |> wq:linear[embed, (kv, group, head)](bias = false) |> rotate(speed)
  k = x |> wk:linear[embed, (kv, head)](bias = false) |> rotate(speed)
  v = x |> wv:linear[embed, (kv, head)](bias = false)
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(kv, group, head), embed](o, bias = false)
}
model smollm3(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(n1:rmsnorm[embed](x, eps = norm_eps), h)
    x = x + mlp:swiglu(n2:rmsnorm[embed](x, eps = norm_eps))
  }
  x = norm:rmsnorm[embed](x, eps = norm_eps)
  return if tied then x @embed wte else x |> out:linear[embed, vocab](bias = false)
}
names huggingface on smollm3 {
  "model.embed_tokens.weight"[vocab, embed] = wte
  "model.layers.{h}.input_layernorm.weight"[embed] = h.n1.gain
  "model.layers.{h}.self_attn.q_proj.weight"[o, embed] = h.attention.wq.w[(kv, group, head) -> o]
  "model.layers.{h}.self_attn.k_proj.weight"[o, embed] = h.attention.wk.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.v_proj.weight"[o, embed] = h.attention.wv.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.o_proj.weight"[embed, o] = h.attention.wo.w[(kv, group, head) -> o]
  "model.layers.{h}.post_attention_layernorm.weight"[embed] = h.n2.gain
  "model.layers.{h}.mlp.gate_proj.weight"[ffn, embed] = h.mlp.gate.w
  "model.layers.{h}.mlp.up_proj.weight"[ffn, embed] = h.mlp.up.w
  "model.layers.{h}.mlp.down_proj.weight"[embed, ffn] = h.mlp.down.w
  "model.norm.weight"[embed] = norm.gain
  "lm_head.weight"[vocab, embed] = if tied then wte else out.w
  config "model_type" = "smollm3"
  config "architectures" = ("SmolLM3ForCausalLM", none)
  config "vocab_size" = vocab
  config "num_hidden_layers" = layers
  config "hidden_size" = embed
  config "num_attention_heads" = heads
  config "num_key_value_heads" = kv
  config "intermediate_size" = ffn
  config "hidden_act" = "silu"
  config "rms_norm_eps" = norm_eps
  config "tie_word_embeddings" = (tied, none)
  config "rope_parameters.rope_theta", "rope_theta" = rope_theta
  config "rope_parameters.rope_type", "rope_scaling.rope_type", "rope_scaling.type" = ("default", none)
  config "no_rope_layer_interval" = (interval, none)
  config "no_rope_layers.{h}" = (if h % interval == interval - 1 then 0 else 1, none)
  config "layer_types.{h}" = ("full_attention", none)
  config "use_sliding_window" = (false, none)
  config "attention_bias" = (false, none)
  config "mlp_bias" = (false, none)
  config "attention_dropout" = (0, none)
}
