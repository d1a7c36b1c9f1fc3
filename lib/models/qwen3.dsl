# SPDX-License-Identifier: Apache-2.0
# Qwen 3, dense (Qwen Team, "Qwen3 Technical Report", 2025): the layers of Llama with an RMS norm of queries
# and keys per head.
#
#   qwen3-0.6b     596,049,920
#   qwen3-1.7b   1,720,574,976  embed=2048 ffn=6144
#   qwen3-4b     4,022,468,096  layers=36 embed=2560 heads=32 ffn=9728
#   qwen3-8b     8,190,735,360  layers=36 embed=4096 heads=32 ffn=12288 tied=false
#   qwen3-14b   14,768,307,200  layers=40 embed=5120 heads=40 ffn=17408 tied=false
#   qwen3-32b   32,762,123,264  layers=64 embed=5120 heads=64 ffn=25600 tied=false
include "parts.dsl"
dim batch = 8, seq = 4096, vocab = 151_936, layers = 28
dim embed = 1024, heads = 16, kv = 8, group = heads // kv, head = 128, ffn = 3072
constant norm_eps = 1e-6, rope_theta = 1_000_000.0, tied = true

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  speed = frequencies(rope_theta)
  q = x |> wq:linear[embed, (kv, group, head)](bias = false) |> qn:rmsnorm[head](eps = norm_eps) |> rotate(speed)
  k = x |> wk:linear[embed, (kv, head)](bias = false) |> kn:rmsnorm[head](eps = norm_eps) |> rotate(speed)
  v = x |> wv:linear[embed, (kv, head)](bias = false)
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(kv, group, head), embed](o, bias = false)
}
model qwen3(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(n1:rmsnorm[embed](x, eps = norm_eps))
    x = x + mlp:swiglu(n2:rmsnorm[embed](x, eps = norm_eps))
  }
  x = norm:rmsnorm[embed](x, eps = norm_eps)
  return if tied then x @embed wte else x |> out:linear[embed, vocab](bias = false)
}
names huggingface on qwen3 {
  "model.embed_tokens.weight"[vocab, embed] = wte
  "model.layers.{h}.input_layernorm.weight"[embed] = h.n1.gain
  "model.layers.{h}.self_attn.q_proj.weight"[o, embed] = h.attention.wq.w[(kv, group, head) -> o]
  "model.layers.{h}.self_attn.k_proj.weight"[o, embed] = h.attention.wk.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.v_proj.weight"[o, embed] = h.attention.wv.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.o_proj.weight"[embed, o] = h.attention.wo.w[(kv, group, head) -> o]
  "model.layers.{h}.self_attn.q_norm.weight"[head] = h.attention.qn.gain
  "model.layers.{h}.self_attn.k_norm.weight"[head] = h.attention.kn.gain
  "model.layers.{h}.post_attention_layernorm.weight"[embed] = h.n2.gain
  "model.layers.{h}.mlp.gate_proj.weight"[ffn, embed] = h.mlp.gate.w
  "model.layers.{h}.mlp.up_proj.weight"[ffn, embed] = h.mlp.up.w
  "model.layers.{h}.mlp.down_proj.weight"[embed, ffn] = h.mlp.down.w
  "model.norm.weight"[embed] = norm.gain
  "lm_head.weight"[vocab, embed] = if tied then wte else out.w
  config "model_type" = "qwen3"
  config "architectures" = ("Qwen3ForCausalLM", none)
  config "vocab_size" = vocab
  config "num_hidden_layers" = layers
  config "hidden_size" = embed
  config "num_attention_heads" = heads
  config "num_key_value_heads" = kv
  config "head_dim" = head
  config "intermediate_size" = ffn
  config "hidden_act" = "silu"
  config "rms_norm_eps" = norm_eps
  config "tie_word_embeddings" = (tied, none)
  config "rope_parameters.rope_theta", "rope_theta" = rope_theta
  config "rope_parameters.rope_type", "rope_scaling.rope_type", "rope_scaling.type" = ("default", none)
  config "use_sliding_window" = (false, none)
  config "layer_types.{h}" = ("full_attention", none)
  config "attention_bias" = (false, none)
  config "attention_dropout" = (0, none)
}
