# SPDX-License-Identifier: Apache-2.0
# BERT (Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", 2019),
# which fills in masked tokens: learned positions, kinds of tokens (0 and 1 for two sentences), layer norms after
# each part, tied embeddings with a bias. The pooler and the prediction of the next sentence are not part of it.
#
#   bert-base-uncased    109,514,298
#   bert-base-cased      108,340,804  vocab=28996
#   bert-large-uncased   335,174,458  layers=24 embed=1024 heads=16
#   bert-large-cased     333,610,308  vocab=28996 layers=24 embed=1024 heads=16
include "std.dsl"
dim batch = 8, seq = 512, kseq = seq, positions = 512, vocab = 30_522, kinds = 2
dim layers = 12, embed = 768, inner = embed, heads = 12, head = embed // heads, ffn = 4 * embed
constant norm_eps = 1e-12, drop = 0.0                      # the published models were trained with drop = 0.1

layer attention(x[batch, seq, embed], bool valid[batch, seq]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = valid[seq -> kseq])
  return wo:linear[(heads, head), embed](o) |> dropout(drop)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed] |> dropout(drop)
}
# valid: false for padding, which no position sees.
model bert(i32 tokens[batch, seq], i32 kind[batch, seq] = 0, bool valid[batch, seq] = true) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[positions, embed] = normal(0.02)
  param wke[kinds, embed] = normal(0.02)
  place = if seq <= positions then iota[seq] else refuse("`seq` is longer than the table of `positions`")
  which = f32(onehot[kinds](iota[kinds][kinds = kind]))     # a product, since two rows would be slow to scatter into
  x = wte[vocab = tokens] + wpe[positions = place] + which @kinds wke
  x = ln:layernorm[embed](x, eps = norm_eps) |> dropout(drop)
  repeat h in layers {
    x = ln1:layernorm[embed](x + attention(x, valid), eps = norm_eps)
    x = ln2:layernorm[embed](x + mlp(x), eps = norm_eps)
  }
  x = x |> turn:linear[embed, inner] |> gelu |> turn_ln:layernorm[inner](eps = norm_eps)
  param b0[vocab] = zeros
  return x[inner -> embed] @embed wte + b0
}
# What transformers writes; then the published files, whose layer norms have other names.
names huggingface on bert {
  "bert.embeddings.word_embeddings.weight"[vocab, embed] = wte
  "bert.embeddings.position_embeddings.weight"[positions, embed] = wpe
  "bert.embeddings.token_type_embeddings.weight"[kinds, embed] = wke
  "bert.embeddings.LayerNorm.weight"[embed] = ln.gain
  "bert.embeddings.LayerNorm.bias"[embed] = ln.shift
  "bert.encoder.layer.{h}.attention.self.query.weight"[o, embed] = h.attention.wq.w[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.self.query.bias"[o] = h.attention.wq.b0[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.self.key.weight"[o, embed] = h.attention.wk.w[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.self.key.bias"[o] = h.attention.wk.b0[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.self.value.weight"[o, embed] = h.attention.wv.w[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.self.value.bias"[o] = h.attention.wv.b0[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.output.dense.weight"[embed, o] = h.attention.wo.w[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.output.dense.bias"[embed] = h.attention.wo.b0
  "bert.encoder.layer.{h}.attention.output.LayerNorm.weight"[embed] = h.ln1.gain
  "bert.encoder.layer.{h}.attention.output.LayerNorm.bias"[embed] = h.ln1.shift
  "bert.encoder.layer.{h}.intermediate.dense.weight"[ffn, embed] = h.mlp.up.w
  "bert.encoder.layer.{h}.intermediate.dense.bias"[ffn] = h.mlp.up.b0
  "bert.encoder.layer.{h}.output.dense.weight"[embed, ffn] = h.mlp.down.w
  "bert.encoder.layer.{h}.output.dense.bias"[embed] = h.mlp.down.b0
  "bert.encoder.layer.{h}.output.LayerNorm.weight"[embed] = h.ln2.gain
  "bert.encoder.layer.{h}.output.LayerNorm.bias"[embed] = h.ln2.shift
  "cls.predictions.transform.dense.weight"[inner, embed] = turn.w
  "cls.predictions.transform.dense.bias"[inner] = turn.b0
  "cls.predictions.transform.LayerNorm.weight"[inner] = turn_ln.gain
  "cls.predictions.transform.LayerNorm.bias"[inner] = turn_ln.shift
  "cls.predictions.bias"[vocab] = b0
  "cls.predictions.decoder.weight"[vocab, embed] = wte
  "cls.predictions.decoder.bias"[vocab] = b0
  ignore "bert.pooler.*", "cls.seq_relationship.*", "bert.embeddings.position_ids"
  config "model_type" = "bert"
  config "architectures" = ("BertForMaskedLM", "BertForPreTraining", none)
  config "vocab_size" = vocab
  config "max_position_embeddings" = positions
  config "type_vocab_size" = kinds
  config "num_hidden_layers" = layers
  config "hidden_size" = embed
  config "num_attention_heads" = heads
  config "intermediate_size" = ffn
  config "hidden_act" = "gelu"
  config "layer_norm_eps" = norm_eps
  config "position_embedding_type" = ("absolute", none)
  config "is_decoder" = (false, none)
  config "add_cross_attention" = (false, none)
  config "tie_word_embeddings" = (true, none)
}
names published on bert {
  "bert.embeddings.word_embeddings.weight"[vocab, embed] = wte
  "bert.embeddings.position_embeddings.weight"[positions, embed] = wpe
  "bert.embeddings.token_type_embeddings.weight"[kinds, embed] = wke
  "bert.embeddings.LayerNorm.gamma"[embed] = ln.gain
  "bert.embeddings.LayerNorm.beta"[embed] = ln.shift
  "bert.encoder.layer.{h}.attention.self.query.weight"[o, embed] = h.attention.wq.w[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.self.query.bias"[o] = h.attention.wq.b0[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.self.key.weight"[o, embed] = h.attention.wk.w[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.self.key.bias"[o] = h.attention.wk.b0[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.self.value.weight"[o, embed] = h.attention.wv.w[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.self.value.bias"[o] = h.attention.wv.b0[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.output.dense.weight"[embed, o] = h.attention.wo.w[(heads, head) -> o]
  "bert.encoder.layer.{h}.attention.output.dense.bias"[embed] = h.attention.wo.b0
  "bert.encoder.layer.{h}.attention.output.LayerNorm.gamma"[embed] = h.ln1.gain
  "bert.encoder.layer.{h}.attention.output.LayerNorm.beta"[embed] = h.ln1.shift
  "bert.encoder.layer.{h}.intermediate.dense.weight"[ffn, embed] = h.mlp.up.w
  "bert.encoder.layer.{h}.intermediate.dense.bias"[ffn] = h.mlp.up.b0
  "bert.encoder.layer.{h}.output.dense.weight"[embed, ffn] = h.mlp.down.w
  "bert.encoder.layer.{h}.output.dense.bias"[embed] = h.mlp.down.b0
  "bert.encoder.layer.{h}.output.LayerNorm.gamma"[embed] = h.ln2.gain
  "bert.encoder.layer.{h}.output.LayerNorm.beta"[embed] = h.ln2.shift
  "cls.predictions.transform.dense.weight"[inner, embed] = turn.w
  "cls.predictions.transform.dense.bias"[inner] = turn.b0
  "cls.predictions.transform.LayerNorm.gamma"[inner] = turn_ln.gain
  "cls.predictions.transform.LayerNorm.beta"[inner] = turn_ln.shift
  "cls.predictions.bias"[vocab] = b0
  "cls.predictions.decoder.weight"[vocab, embed] = wte
  "cls.predictions.decoder.bias"[vocab] = b0
  ignore "bert.pooler.*", "cls.seq_relationship.*", "bert.embeddings.position_ids"
  config "model_type" = "bert"
  config "architectures" = ("BertForMaskedLM", "BertForPreTraining", none)
  config "vocab_size" = vocab
  config "max_position_embeddings" = positions
  config "type_vocab_size" = kinds
  config "num_hidden_layers" = layers
  config "hidden_size" = embed
  config "num_attention_heads" = heads
  config "intermediate_size" = ffn
  config "hidden_act" = "gelu"
  config "layer_norm_eps" = norm_eps
  config "position_embedding_type" = ("absolute", none)
  config "is_decoder" = (false, none)
  config "add_cross_attention" = (false, none)
  config "tie_word_embeddings" = (true, none)
}
