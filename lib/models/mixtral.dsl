# SPDX-License-Identifier: Apache-2.0
# Mixtral (Jiang et al., "Mixtral of Experts", 2024): the layers of Mistral with experts for the MLP, of which
# each token uses two. `slot` is how many tokens of a sequence an expert takes; with `slot` = seq, which
# transformers computes, it takes all of them. Fewer, such as slot = seq * choice * 5 // (4 * experts), are
# less work in training, and drop the tokens beyond.
#
#   mixtral-8x7b    46,702,792,704
#   mixtral-8x22b  140,620,634,112  layers=56 embed=6144 heads=48 ffn=16384
include "parts.dsl"
dim batch = 8, seq = 4096, vocab = 32_000, layers = 32
dim embed = 4096, heads = 32, kv = 8, group = heads // kv, head = embed // heads, ffn = 14_336
dim experts = 8, route = experts, choice = 2, slot = seq   # `route`: experts that a token may take, never sharded
constant norm_eps = 1e-5, rope_theta = 1_000_000.0, reach = 0, tied = false

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
layer mixture(x[batch, seq, embed]) -> [batch, seq, embed] {
  param router[embed, route] = normal(0.02)
  param w1[experts, embed, ffn], w3[experts, embed, ffn], w2[experts, ffn, embed] = normal(0.02)
  g, e = topk[route, choice](softmax[route](f32(x @embed router)))
  g = g / sum[choice](g)
  place = cumsum[seq, choice](onehot[route](e))[route = e] - 1          # in the queue of its expert
  taken = scatter[seq, choice](x, experts = e, slot = place)
  y = silu(taken @embed w1) * (taken @embed w3) @ffn w2
  return sum[choice](g * y[experts = e, slot = place])
}
model mixtral(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(n1:rmsnorm[embed](x, eps = norm_eps))
    x = x + moe:mixture(n2:rmsnorm[embed](x, eps = norm_eps))
  }
  x = norm:rmsnorm[embed](x, eps = norm_eps)
  return if tied then x @embed wte else x |> out:linear[embed, vocab](bias = false)
}
names huggingface on mixtral {
  "model.embed_tokens.weight"[vocab, embed] = wte
  "model.layers.{h}.input_layernorm.weight"[embed] = h.n1.gain
  "model.layers.{h}.self_attn.q_proj.weight"[o, embed] = h.attention.wq.w[(kv, group, head) -> o]
  "model.layers.{h}.self_attn.k_proj.weight"[o, embed] = h.attention.wk.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.v_proj.weight"[o, embed] = h.attention.wv.w[(kv, head) -> o]
  "model.layers.{h}.self_attn.o_proj.weight"[embed, o] = h.attention.wo.w[(kv, group, head) -> o]
  "model.layers.{h}.post_attention_layernorm.weight"[embed] = h.n2.gain
  "model.layers.{h}.block_sparse_moe.gate.weight"[route, embed] = h.moe.router
  "model.layers.{h}.block_sparse_moe.experts.{experts}.w1.weight"[ffn, embed] = h.moe.w1
  "model.layers.{h}.block_sparse_moe.experts.{experts}.w3.weight"[ffn, embed] = h.moe.w3
  "model.layers.{h}.block_sparse_moe.experts.{experts}.w2.weight"[embed, ffn] = h.moe.w2
  "model.norm.weight"[embed] = norm.gain
  "lm_head.weight"[vocab, embed] = if tied then wte else out.w
  config "model_type" = "mixtral"
  config "architectures" = ("MixtralForCausalLM", none)
  config "vocab_size" = vocab
  config "num_hidden_layers" = layers
  config "hidden_size" = embed
  config "num_attention_heads" = heads
  config "num_key_value_heads" = kv
  config "head_dim" = (head, none)
  config "intermediate_size" = ffn
  config "num_local_experts" = experts
  config "num_experts_per_tok" = choice
  config "hidden_act" = "silu"
  config "rms_norm_eps" = norm_eps
  config "tie_word_embeddings" = (tied, none)
  config "rope_parameters.rope_theta", "rope_theta" = rope_theta
  config "rope_parameters.rope_type", "rope_scaling.rope_type", "rope_scaling.type" = ("default", none)
  config "sliding_window" = if reach == 0 then (none, reach) else reach
  config "router_jitter_noise" = (0.0, none)
  config "output_router_logits" = (false, none)
  config "attention_dropout" = (0, none)
}
