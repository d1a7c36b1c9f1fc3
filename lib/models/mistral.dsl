# SPDX-License-Identifier: Apache-2.0
# Mistral (Jiang et al., "Mistral 7B", 2023): the layers of Llama; in version 0.1 attention sees the last
# 4,096 positions only. Later versions have `reach` = 0: all positions.
#
#   mistral-7b-v0.1     7,241,732,096  reach=4096
#   mistral-7b-v0.3     7,248,023,552  vocab=32768 rope_theta=1000000
#   mistral-nemo-12b   12,247,782,400  vocab=131072 layers=40 embed=5120 head=128 rope_theta=1000000
#   mistral-small-24b  23,572,403,200  vocab=131072 layers=40 embed=5120 head=128 ffn=32768 rope_theta=100000000
include "parts.dsl"
dim batch = 8, seq = 4096, vocab = 32_000, layers = 32
dim embed = 4096, heads = 32, kv = 8, group = heads // kv, head = embed // heads, ffn = 14_336
constant norm_eps = 1e-5, rope_theta = 10_000.0, reach = 0, tied = false

layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  speed = frequencies(rope_theta)
  q = x |> wq:linear[embed, (kv, group, head)](bias = false) |> rotate(speed)
  k = x |> wk:linear[embed, (kv, head)](bias = false) |> rotate(speed)
  v = x |> wv:linear[embed, (kv, head)](bias = false)
  seen = iota[kseq] <= iota[seq]
  if reach > 0 { seen = seen and iota[seq] - iota[kseq] < reach }
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = head ** -0.5, mask = seen)
  return wo:linear[(kv, group, head), embed](o, bias = false)
}
model mistral(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(n1:rmsnorm[embed](x, eps = norm_eps))
    x = x + mlp:swiglu(n2:rmsnorm[embed](x, eps = norm_eps))
  }
  x = norm:rmsnorm[embed](x, eps = norm_eps)
  return if tied then x @embed wte else x |> out:linear[embed, vocab](bias = false)
}
names huggingface on mistral {
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
  config "model_type" = "mistral"
  config "architectures" = ("MistralForCausalLM", none)
  config "vocab_size" = vocab
  config "num_hidden_layers" = layers
  config "hidden_size" = embed
  config "num_attention_heads" = heads
  config "num_key_value_heads" = kv
  config "head_dim" = (head, none)
  config "intermediate_size" = ffn
  config "hidden_act" = "silu"
  config "rms_norm_eps" = norm_eps
  config "tie_word_embeddings" = (tied, none)
  config "rope_parameters.rope_theta", "rope_theta" = if rope_theta == 10_000 then (rope_theta, none) else rope_theta
  config "rope_parameters.rope_type", "rope_scaling.rope_type", "rope_scaling.type" = ("default", none)
  config "sliding_window" = if reach == 0 then (none, reach) else reach
  config "attention_dropout" = (0, none)
}
