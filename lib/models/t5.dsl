# SPDX-License-Identifier: Apache-2.0
# T5 (Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", 2020): an
# encoder and a decoder with RMS norms, whose attention adds a learned number for each distance of positions, one
# table for all layers of a stack, and is not scaled. T5 1.1 has a gated MLP and output weights of its own.
#
#   t5-small          60,506,624
#   t5-base          222,903,552  layers=12 embed=768 heads=12 ffn=3072
#   t5-large         737,668,096  layers=24 embed=1024 heads=16 ffn=4096
#   t5-3b          2,851,598,336  layers=24 embed=1024 heads=32 head=128 ffn=16384
#   t5-11b        11,307,321,344  layers=24 embed=1024 heads=128 head=128 ffn=65536
#   t5-v1_1-small     76,961,152  layers=8 heads=6 ffn=1024 gated=true tied=false
#   t5-v1_1-base     247,577,856  layers=12 embed=768 heads=12 ffn=2048 gated=true tied=false
#   t5-v1_1-large    783,150,080  layers=24 embed=1024 heads=16 ffn=2816 gated=true tied=false
#   t5-v1_1-xl     2,849,757,184  layers=24 embed=2048 heads=32 ffn=5120 gated=true tied=false
#   t5-v1_1-xxl   11,135,332,352  layers=24 embed=4096 heads=64 ffn=10240 gated=true tied=false
include "std.dsl"
dim batch = 8, src = 512, ksrc = src, seq = 512, kseq = seq, vocab = 32_128
dim layers = 6, decoders = layers, embed = 512, heads = 8, head = 64, ffn = 2048, buckets = 32
constant norm_eps = 1e-6, farthest = 128, gated = false, tied = true
constant drop = 0.0                                         # T5 was trained with drop = 0.1, T5 1.1 with 0

# The bucket of a distance d: half of the buckets are for one distance each, from 0 on, the others grow in a constant
# ratio up to `farthest`. If `both` ways count, later positions have buckets of their own.
fn bucket(i32 d[...], both) -> i32[...] {
  n = if both then buckets // 2 else buckets
  near = n // 2
  r = if both then abs(d) else max(-d, 0)
  # 1e-4: a bucket begins at a whole distance or well between two, so that rounding moves none
  grown = near + i32(log(max(r, 1) / near) / log(farthest / near) * (n - near) + 1e-4)
  later = if both then where(d > 0, n, 0) else 0
  return later + where(r < near, r, min(grown, n - 1))
}
layer attention[s, t](x[..., s, embed], y[..., t, embed], bias = 0.0, mask = true) -> [..., s, embed] {
  q = wq:linear[embed, (heads, head)](x, std = (embed * head) ** -0.5, bias = false)
  k = wk:linear[embed, (heads, head)](y, std = embed ** -0.5, bias = false)
  v = wv:linear[embed, (heads, head)](y, std = embed ** -0.5, bias = false)
  o = attend[s, t, head](q, k, v, scale = 1.0, bias = bias, mask = mask)
  return wo:linear[(heads, head), embed](o, std = (heads * head) ** -0.5, bias = false) |> dropout(drop)
}
layer mlp(x[..., embed]) -> [..., embed] {
  if gated {
    g = gelu_tanh(gate:linear[embed, ffn](x, std = embed ** -0.5, bias = false))
    y = g * up:linear[embed, ffn](x, std = embed ** -0.5, bias = false)
  } else { y = relu(up:linear[embed, ffn](x, std = embed ** -0.5, bias = false)) }
  return down:linear[ffn, embed](y |> dropout(drop), std = ffn ** -0.5, bias = false) |> dropout(drop)
}
# target: the labels after one token of padding. valid: false for padding of the source.
model t5(i32 source[batch, src], i32 target[batch, seq], bool valid[batch, src] = true) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(1.0)
  param near_e[buckets, heads], near_d[buckets, heads] = normal(embed ** -0.5)
  x = wte[vocab = source] |> dropout(drop)
  bias_e = near_e[buckets = bucket(iota[ksrc] - iota[src], true)]
  repeat e in layers {
    n = n1:rmsnorm[embed](x, eps = norm_eps)
    x = x + attention[src, ksrc](n, n[src -> ksrc], bias = bias_e, mask = valid[src -> ksrc])
    x = x + mlp(n2:rmsnorm[embed](x, eps = norm_eps))
  }
  m = norm_e:rmsnorm[embed](x, eps = norm_eps)[src -> ksrc] |> dropout(drop)
  y = wte[vocab = target] |> dropout(drop)
  bias_d = near_d[buckets = bucket(iota[kseq] - iota[seq], false)]
  repeat d in decoders {
    n = n1:rmsnorm[embed](y, eps = norm_eps)
    y = y + own:attention[seq, kseq](n, n[seq -> kseq], bias = bias_d, mask = iota[kseq] <= iota[seq])
    y = y + cross:attention[seq, ksrc](n2:rmsnorm[embed](y, eps = norm_eps), m, mask = valid[src -> ksrc])
    y = y + mlp(n3:rmsnorm[embed](y, eps = norm_eps))
  }
  y = norm_d:rmsnorm[embed](y, eps = norm_eps) |> dropout(drop)
  return if tied then (y * embed ** -0.5) @embed wte else y |> out:linear[embed, vocab](bias = false)
}
names huggingface on t5 {
  "shared.weight"[vocab, embed] = wte
  "encoder.embed_tokens.weight"[vocab, embed] = wte
  "decoder.embed_tokens.weight"[vocab, embed] = wte
  "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"[buckets, heads] = near_e
  "encoder.block.{e}.layer.0.layer_norm.weight"[embed] = e.n1.gain
  "encoder.block.{e}.layer.0.SelfAttention.q.weight"[o, embed] = e.attention.wq.w[(heads, head) -> o]
  "encoder.block.{e}.layer.0.SelfAttention.k.weight"[o, embed] = e.attention.wk.w[(heads, head) -> o]
  "encoder.block.{e}.layer.0.SelfAttention.v.weight"[o, embed] = e.attention.wv.w[(heads, head) -> o]
  "encoder.block.{e}.layer.0.SelfAttention.o.weight"[embed, o] = e.attention.wo.w[(heads, head) -> o]
  "encoder.block.{e}.layer.1.layer_norm.weight"[embed] = e.n2.gain
  "encoder.block.{e}.layer.1.DenseReluDense.wi.weight"[ffn, embed] = if gated then none else e.mlp.up.w
  "encoder.block.{e}.layer.1.DenseReluDense.wi_0.weight"[ffn, embed] = if gated then e.mlp.gate.w else none
  "encoder.block.{e}.layer.1.DenseReluDense.wi_1.weight"[ffn, embed] = if gated then e.mlp.up.w else none
  "encoder.block.{e}.layer.1.DenseReluDense.wo.weight"[embed, ffn] = e.mlp.down.w
  "encoder.final_layer_norm.weight"[embed] = norm_e.gain
  "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"[buckets, heads] = near_d
  "decoder.block.{d}.layer.0.layer_norm.weight"[embed] = d.n1.gain
  "decoder.block.{d}.layer.0.SelfAttention.q.weight"[o, embed] = d.own.wq.w[(heads, head) -> o]
  "decoder.block.{d}.layer.0.SelfAttention.k.weight"[o, embed] = d.own.wk.w[(heads, head) -> o]
  "decoder.block.{d}.layer.0.SelfAttention.v.weight"[o, embed] = d.own.wv.w[(heads, head) -> o]
  "decoder.block.{d}.layer.0.SelfAttention.o.weight"[embed, o] = d.own.wo.w[(heads, head) -> o]
  "decoder.block.{d}.layer.1.layer_norm.weight"[embed] = d.n2.gain
  "decoder.block.{d}.layer.1.EncDecAttention.q.weight"[o, embed] = d.cross.wq.w[(heads, head) -> o]
  "decoder.block.{d}.layer.1.EncDecAttention.k.weight"[o, embed] = d.cross.wk.w[(heads, head) -> o]
  "decoder.block.{d}.layer.1.EncDecAttention.v.weight"[o, embed] = d.cross.wv.w[(heads, head) -> o]
  "decoder.block.{d}.layer.1.EncDecAttention.o.weight"[embed, o] = d.cross.wo.w[(heads, head) -> o]
  "decoder.block.{d}.layer.2.layer_norm.weight"[embed] = d.n3.gain
  "decoder.block.{d}.layer.2.DenseReluDense.wi.weight"[ffn, embed] = if gated then none else d.mlp.up.w
  "decoder.block.{d}.layer.2.DenseReluDense.wi_0.weight"[ffn, embed] = if gated then d.mlp.gate.w else none
  "decoder.block.{d}.layer.2.DenseReluDense.wi_1.weight"[ffn, embed] = if gated then d.mlp.up.w else none
  "decoder.block.{d}.layer.2.DenseReluDense.wo.weight"[embed, ffn] = d.mlp.down.w
  "decoder.final_layer_norm.weight"[embed] = norm_d.gain
  "lm_head.weight"[vocab, embed] = if tied then wte else out.w
  ignore "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"    # of no use
  config "model_type" = "t5"
  config "architectures" = ("T5ForConditionalGeneration", "T5WithLMHeadModel", none)
  config "vocab_size" = vocab
  config "num_layers" = layers
  config "num_decoder_layers" = if decoders == layers then (decoders, none) else decoders
  config "d_model" = embed
  config "num_heads" = heads
  config "d_kv" = head
  config "d_ff" = ffn
  config "feed_forward_proj" = if gated then "gated-gelu" else ("relu", none)
  config "relative_attention_num_buckets" = if buckets == 32 then (buckets, none) else buckets
  config "relative_attention_max_distance" = if farthest == 128 then (farthest, none) else farthest
  config "layer_norm_epsilon" = norm_eps
  config "scale_decoder_outputs", "tie_word_embeddings" = if tied then (true, none) else false
  config "is_decoder" = (false, none)
}
