# SPDX-License-Identifier: Apache-2.0
# Llama (Touvron et al., "Llama 2", 2023; Grattafiori et al., "The Llama 3 Herd of Models", 2024): RMS norms,
# rotary positions, grouped queries, a gated MLP. Llama 1 to 3.3 (text), and models with the same layers, such
# as SmolLM 2.
#
#   llama-2-7b     6,738,415,616
#   llama-2-13b   13,015,864,320  layers=40 embed=5120 heads=40 kv=40 ffn=13824
#   llama-2-70b   68,976,648,192  layers=80 embed=8192 heads=64 kv=8 ffn=28672
#   llama-3-8b     8,030,261,248  vocab=128256 kv=8 ffn=14336 rope_theta=500000
#   llama-3-70b   70,553,706,496  vocab=128256 layers=80 embed=8192 heads=64 kv=8 ffn=28672 rope_theta=500000
#   llama-3.1-8b   8,030,261,248  vocab=128256 kv=8 ffn=14336 rope_theta=500000 rope_factor=8
#   llama-3.2-1b   1,235,814,400  vocab=128256 layers=16 embed=2048 kv=8 ffn=8192 rope_theta=500000 rope_factor=32 tied=true
#   llama-3.2-3b   3,212,749,824  vocab=128256 layers=28 embed=3072 heads=24 kv=8 ffn=8192 rope_theta=500000 rope_factor=32 tied=true
#   smollm2-135m     134,515,008  vocab=49152 layers=30 embed=576 heads=9 kv=3 ffn=1536 rope_theta=100000 tied=true
#   smollm2-360m     361,821,120  vocab=49152 embed=960 heads=15 kv=5 ffn=2560 rope_theta=100000 tied=true
#   smollm2-1.7b   1,711,376,384  vocab=49152 layers=24 embed=2048 ffn=8192 rope_theta=130000 tied=true
include "parts.dsl"
dim batch = 8, seq = 4096, vocab = 32_000, layers = 32
dim embed = 4096, heads = 32, kv = heads, group = heads // kv, head = embed // heads, ffn = 11_008
constant norm_eps = 1e-5, rope_theta = 10_000.0, tied = false
constant rope_factor = 1.0, rope_low = 1.0, rope_high = 4.0, rope_context = 8192   # scaling "llama3"; factor 1: none

# Waves that have turned fewer than `rope_low` times at the end of the first context are slowed down by
# `rope_factor`, those that have turned more than `rope_high` times stay as they are.
fn scaled(frequency[half]) -> [half] {
  turns = rope_context * frequency / 6.283185307179586
  kept = min(max((turns - rope_low) / (rope_high - rope_low), 0), 1)
  return frequency * (kept + (1 - kept) / rope_factor)
}
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  speed = if rope_factor == 1 then frequencies(rope_theta) else scaled(frequencies(rope_theta))
  q = x |> wq:linear[embed, (kv, group, head)](bias = false) |> rotate(speed)
  k = x |> wk:linear[embed, (kv, head)](bias = false) |> rotate(speed)
  v = x |> wv:linear[embed, (kv, head)](bias = false)
  o = attend[seq, kseq, head](q, k[seq -> kseq], v[seq -> kseq], scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(kv, group, head), embed](o, bias = false)
}
model llama(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(n1:rmsnorm[embed](x, eps = norm_eps))
    x = x + mlp:swiglu(n2:rmsnorm[embed](x, eps = norm_eps))
  }
  x = norm:rmsnorm[embed](x, eps = norm_eps)
  return if tied then x @embed wte else x |> out:linear[embed, vocab](bias = false)
}
names huggingface on llama {
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
  ignore "model.layers.*.self_attn.rotary_emb.inv_freq"
  config "model_type" = "llama"
  config "architectures" = ("LlamaForCausalLM", none)
  config "vocab_size" = vocab
  config "num_hidden_layers" = layers
  config "hidden_size" = embed
  config "num_attention_heads" = heads
  config "num_key_value_heads" = (kv, none)
  config "head_dim" = (head, none)
  config "intermediate_size" = ffn
  config "hidden_act" = "silu"
  config "rms_norm_eps" = norm_eps
  config "tie_word_embeddings" = (tied, none)
  config "rope_parameters.rope_theta", "rope_theta" = if rope_theta == 10_000 then (rope_theta, none) else rope_theta
  config "rope_parameters.rope_type", "rope_scaling.rope_type", "rope_scaling.type" =
    if rope_factor == 1 then ("default", none) else "llama3"
  config "rope_parameters.factor", "rope_scaling.factor" = (rope_factor, none)
  config "rope_parameters.low_freq_factor", "rope_scaling.low_freq_factor" = (rope_low, none)
  config "rope_parameters.high_freq_factor", "rope_scaling.high_freq_factor" = (rope_high, none)
  config "rope_parameters.original_max_position_embeddings", "rope_scaling.original_max_position_embeddings" =
    (rope_context, none)
  config "rope_parameters.partial_rotary_factor", "partial_rotary_factor" = (1, none)
  config "attention_bias" = (false, none)
  config "mlp_bias" = (false, none)
  config "attention_dropout" = (0, none)
}
