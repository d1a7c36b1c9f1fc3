# SPDX-License-Identifier: Apache-2.0
# Whisper (Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022), which writes down
# speech: an encoder of log-mel features, two convolutions first, and a decoder with tied embeddings. Positions of
# the encoder are sines in a table that is not trained. The numbers of parameters leave it out, as OpenAI does;
# transformers counts it (whisper-tiny: 576,000 more).
#
#   whisper-tiny              37,184,640
#   whisper-base              71,825,920  layers=6 embed=512 heads=8
#   whisper-small            240,582,912  layers=12 embed=768 heads=12
#   whisper-medium           762,321,920  layers=24 embed=1024 heads=16
#   whisper-large          1,541,384,960  layers=32 embed=1280 heads=20
#   whisper-large-v3       1,541,570,560  vocab=51866 mels=128 layers=32 embed=1280 heads=20
#   whisper-large-v3-turbo   806,958,080  vocab=51866 mels=128 layers=32 decoders=4 embed=1280 heads=20
include "std.dsl"
dim batch = 8, mels = 80, frames = 1500, kframes = frames, seq = 448, kseq = seq, positions = 448, vocab = 51_865
dim layers = 4, decoders = layers, embed = 384, heads = 6, head = embed // heads, ffn = 4 * embed
axis time
constant drop = 0.0, stored = true      # stored = false: sines are computed, for training from initial values

layer attention[s, t](x[..., s, embed], y[..., t, embed], mask = true) -> [..., s, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](y, bias = false)
  v = wv:linear[embed, (heads, head)](y)
  o = attend[s, t, head](q, k, v, scale = head ** -0.5, mask = mask)
  return wo:linear[(heads, head), embed](o) |> dropout(drop)
}
layer mlp(x[..., embed]) -> [..., embed] {
  return x |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed] |> dropout(drop)
}
# input_features: log-mel features. tokens: the labels after one token that begins them.
model whisper(input_features[batch, mels, time = 2 * frames], i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[positions, embed] = normal(0.02)
  place = if seq <= positions then iota[seq] else refuse("`seq` is longer than the table of `positions`")
  if stored { state sines[frames, embed] = zeros } else {
    angle = iota[frames] * 10_000.0 ** (-(iota[embed] % (embed // 2)) / (embed // 2 - 1))
    sines = where(iota[embed] < embed // 2, sin(angle), cos(angle))
  }
  x = input_features[mels -> chan] |> conv1:conv1d[time, chan](embed) |> gelu
  x = x |> conv2:conv1d[time, chan](embed, stride = 2) |> gelu
  x = x[time -> frames, chan -> embed] + sines |> dropout(drop)
  repeat e in layers {
    n = n1:layernorm[embed](x)
    x = x + attention[frames, kframes](n, n[frames -> kframes])
    x = x + mlp(n2:layernorm[embed](x))
  }
  m = norm_e:layernorm[embed](x)[frames -> kframes]
  y = wte[vocab = tokens] + wpe[positions = place] |> dropout(drop)
  repeat d in decoders {
    n = n1:layernorm[embed](y)
    y = y + own:attention[seq, kseq](n, n[seq -> kseq], mask = iota[kseq] <= iota[seq])
    y = y + cross:attention[seq, kframes](n2:layernorm[embed](y), m)
    y = y + mlp(n3:layernorm[embed](y))
  }
  return norm_d:layernorm[embed](y) @embed wte
}
names huggingface on whisper {
  "model.encoder.conv1.weight"[out, chan, kw] = conv1.w
  "model.encoder.conv1.bias"[out] = conv1.b
  "model.encoder.conv2.weight"[out, chan, kw] = conv2.w
  "model.encoder.conv2.bias"[out] = conv2.b
  "model.encoder.embed_positions.weight"[frames, embed] = if stored then sines else none
  "model.encoder.layers.{e}.self_attn_layer_norm.weight"[embed] = e.n1.gain
  "model.encoder.layers.{e}.self_attn_layer_norm.bias"[embed] = e.n1.shift
  "model.encoder.layers.{e}.self_attn.q_proj.weight"[o, embed] = e.attention.wq.w[(heads, head) -> o]
  "model.encoder.layers.{e}.self_attn.q_proj.bias"[o] = e.attention.wq.b0[(heads, head) -> o]
  "model.encoder.layers.{e}.self_attn.k_proj.weight"[o, embed] = e.attention.wk.w[(heads, head) -> o]
  "model.encoder.layers.{e}.self_attn.v_proj.weight"[o, embed] = e.attention.wv.w[(heads, head) -> o]
  "model.encoder.layers.{e}.self_attn.v_proj.bias"[o] = e.attention.wv.b0[(heads, head) -> o]
  "model.encoder.layers.{e}.self_attn.out_proj.weight"[embed, o] = e.attention.wo.w[(heads, head) -> o]
  "model.encoder.layers.{e}.self_attn.out_proj.bias"[embed] = e.attention.wo.b0
  "model.encoder.layers.{e}.final_layer_norm.weight"[embed] = e.n2.gain
  "model.encoder.layers.{e}.final_layer_norm.bias"[embed] = e.n2.shift
  "model.encoder.layers.{e}.fc1.weight"[ffn, embed] = e.mlp.up.w
  "model.encoder.layers.{e}.fc1.bias"[ffn] = e.mlp.up.b0
  "model.encoder.layers.{e}.fc2.weight"[embed, ffn] = e.mlp.down.w
  "model.encoder.layers.{e}.fc2.bias"[embed] = e.mlp.down.b0
  "model.encoder.layer_norm.weight"[embed] = norm_e.gain
  "model.encoder.layer_norm.bias"[embed] = norm_e.shift
  "model.decoder.embed_tokens.weight"[vocab, embed] = wte
  "model.decoder.embed_positions.weight"[positions, embed] = wpe
  "model.decoder.layers.{d}.self_attn_layer_norm.weight"[embed] = d.n1.gain
  "model.decoder.layers.{d}.self_attn_layer_norm.bias"[embed] = d.n1.shift
  "model.decoder.layers.{d}.self_attn.q_proj.weight"[o, embed] = d.own.wq.w[(heads, head) -> o]
  "model.decoder.layers.{d}.self_attn.q_proj.bias"[o] = d.own.wq.b0[(heads, head) -> o]
  "model.decoder.layers.{d}.self_attn.k_proj.weight"[o, embed] = d.own.wk.w[(heads, head) -> o]
  "model.decoder.layers.{d}.self_attn.v_proj.weight"[o, embed] = d.own.wv.w[(heads, head) -> o]
  "model.decoder.layers.{d}.self_attn.v_proj.bias"[o] = d.own.wv.b0[(heads, head) -> o]
  "model.decoder.layers.{d}.self_attn.out_proj.weight"[embed, o] = d.own.wo.w[(heads, head) -> o]
  "model.decoder.layers.{d}.self_attn.out_proj.bias"[embed] = d.own.wo.b0
  "model.decoder.layers.{d}.encoder_attn_layer_norm.weight"[embed] = d.n2.gain
  "model.decoder.layers.{d}.encoder_attn_layer_norm.bias"[embed] = d.n2.shift
  "model.decoder.layers.{d}.encoder_attn.q_proj.weight"[o, embed] = d.cross.wq.w[(heads, head) -> o]
  "model.decoder.layers.{d}.encoder_attn.q_proj.bias"[o] = d.cross.wq.b0[(heads, head) -> o]
  "model.decoder.layers.{d}.encoder_attn.k_proj.weight"[o, embed] = d.cross.wk.w[(heads, head) -> o]
  "model.decoder.layers.{d}.encoder_attn.v_proj.weight"[o, embed] = d.cross.wv.w[(heads, head) -> o]
  "model.decoder.layers.{d}.encoder_attn.v_proj.bias"[o] = d.cross.wv.b0[(heads, head) -> o]
  "model.decoder.layers.{d}.encoder_attn.out_proj.weight"[embed, o] = d.cross.wo.w[(heads, head) -> o]
  "model.decoder.layers.{d}.encoder_attn.out_proj.bias"[embed] = d.cross.wo.b0
  "model.decoder.layers.{d}.final_layer_norm.weight"[embed] = d.n3.gain
  "model.decoder.layers.{d}.final_layer_norm.bias"[embed] = d.n3.shift
  "model.decoder.layers.{d}.fc1.weight"[ffn, embed] = d.mlp.up.w
  "model.decoder.layers.{d}.fc1.bias"[ffn] = d.mlp.up.b0
  "model.decoder.layers.{d}.fc2.weight"[embed, ffn] = d.mlp.down.w
  "model.decoder.layers.{d}.fc2.bias"[embed] = d.mlp.down.b0
  "model.decoder.layer_norm.weight"[embed] = norm_d.gain
  "model.decoder.layer_norm.bias"[embed] = norm_d.shift
  "proj_out.weight"[vocab, embed] = wte
  config "model_type" = "whisper"
  config "architectures" = ("WhisperForConditionalGeneration", none)
  config "vocab_size" = vocab
  config "num_mel_bins" = mels
  config "max_source_positions" = frames
  config "max_target_positions" = positions
  config "encoder_layers" = layers
  config "decoder_layers" = decoders
  config "d_model" = embed
  config "encoder_attention_heads" = heads
  config "decoder_attention_heads" = heads
  config "encoder_ffn_dim" = ffn
  config "decoder_ffn_dim" = ffn
  config "activation_function" = ("gelu", none)
  config "scale_embedding" = (false, none)
  config "tie_word_embeddings" = (true, none)
}
