# SPDX-License-Identifier: Apache-2.0
# OLMo 2 (OLMo Team, "2 OLMo 2 Furious", 2024): norms after each part instead of before it, and one norm of
# all queries and one of all keys together.
#
#   olmo2-1b    1,484,916,736
#   olmo2-7b    7,298,617,344  layers=32 embed=4096 heads=32 ffn=11008
#   olmo2-13b  13,716,198,400  layers=40 embed=5120 heads=40 ffn=13824
#   olmo2-32b  32,234,279,936  layers=64 embed=5120 heads=40 kv=8 ffn=27648
include "parts.dsl"
dim batch = 8, seq = 4096, vocab = 100_352, layers = 16
dim embed = 2048, heads = 16, kv = heads, group = heads // kv, head = embed // heads, ffn = 8192
constant norm_eps = 1e-6, rope_theta = 500_000.0, tied = false

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  speed = frequencies(rope_theta)
  q = x |> wq:linear[embed, (kv, group, head)](bias = false)
        |> qn:rmsnorm[(kv, group, head)](eps = norm_eps) |> rotate(speed)
  k = x |> wk:linear[embed, (kv, head)](bias = false) |> kn:rmsnorm[(kv, head)](eps = norm_eps) |> rotate(speed)
  v = x |> wv:linear[embed, (kv, head)](bias = false)
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(kv, group, head), embed](o, bias = false)
}
model olmo2(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + n1:rmsnorm[embed](attention(x), eps = norm_eps)
    x = x + n2:rmsnorm[embed](mlp:swiglu(x), eps = norm_eps)
  }
  x = norm:rmsnorm[embed](x, eps = norm_eps)
  return if tied then x @embed wte else x |> out:linear[embed, vocab](bias = false)
}
names huggingface on olmo2 {
  "model.embed_tokens.weight"[vocab, embed] = wte
  "model.layers.{h}.self_attn.q_proj.weight"[o, embed] = h.attention.wq.w[(kv, group, head) -> o]
  "model.layers.{h}.self_attn.k_proj.weight"[o, embed] = h.attention.wk.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.v_proj.weight"[o, embed] = h.attention.wv.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.o_proj.weight"[embed, o] = h.attention.wo.w[(kv, group, head) -> o]
  "model.layers.{h}.self_attn.q_norm.weight"[o] = h.attention.qn.gain[(kv, group, head) -> o]
  "model.layers.{h}.self_attn.k_norm.weight"[o] = h.attention.kn.gain[(kv, head) -> o]
  "model.layers.{h}.post_attention_layernorm.weight"[embed] = h.n1.gain
  "model.layers.{h}.mlp.gate_proj.weight"[ffn, embed] = h.mlp.gate.w
  "model.layers.{h}.mlp.up_proj.weight"[ffn, embed] = h.mlp.up.w
  "model.layers.{h}.mlp.down_proj.weight"[embed, ffn] = h.mlp.down.w
  "model.layers.{h}.post_feedforward_layernorm.weight"[embed] = h.n2.gain
  "model.norm.weight"[embed] = norm.gain
  "lm_head.weight"[vocab, embed] = if tied then wte else out.w
  config "model_type" = "olmo2"
  config "architectures" = ("Olmo2ForCausalLM", none)
  config "vocab_size" = vocab
  config "num_hidden_layers" = layers
  config "hidden_size" = embed
  config "num_attention_heads" = heads
  config "num_key_value_heads" = (kv, none)
  config "intermediate_size" = ffn
  config "hidden_act" = "silu"
  config "rms_norm_eps" = norm_eps
  config "tie_word_embeddings" = (tied, none)
  config "rope_parameters.rope_theta", "rope_theta" = rope_theta
  config "rope_parameters.rope_type", "rope_scaling.rope_type", "rope_scaling.type" = ("default", none)
  config "attention_bias" = (false, none)
  config "attention_dropout" = (0, none)
}
