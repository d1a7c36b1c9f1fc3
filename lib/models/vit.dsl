# SPDX-License-Identifier: Apache-2.0
# ViT (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021), which classifies images: patches, a token for the
# class, learned positions, layer norms before each part.
#
#   vit-base-patch16-224    86,567,656
#   vit-base-patch32-384    88,297,192  image=384 patch=32
#   vit-large-patch16-224  304,326,632  layers=24 embed=1024 heads=16
include "std.dsl"
dim batch = 8, rgb = 3, image = 224, patch = 16, across = patch, rows = image // patch, columns = rows
dim classes = 1000, layers = 12, embed = 768, heads = 12, head = embed // heads, ffn = 4 * embed
axis token, ktoken
constant norm_eps = 1e-12, biased = true, drop = 0.0

layer attention(x[batch, token, embed]) -> [batch, token, embed] {
  q = wq:linear[embed, (heads, head)](x, bias = biased)
  k = wk:linear[embed, (heads, head)](x, bias = biased)[token -> ktoken]
  v = wv:linear[embed, (heads, head)](x, bias = biased)[token -> ktoken]
  o = attend[token, ktoken, head](q, k, v, scale = head ** -0.5)
  return wo:linear[(heads, head), embed](o) |> dropout(drop)
}
layer mlp(x[batch, token, embed]) -> [batch, token, embed] {
  return x |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed] |> dropout(drop)
}
model vit(pixel_values[batch, rgb, height = image, width = image]) -> [batch, classes] {
  param first[token = 1, embed] = normal(0.02)
  param places[token = 1 + rows * columns, embed] = normal(0.02)
  x = pixel_values[height -> (rows, patch), width -> (columns, across)] |> cut:linear[(rgb, patch, across), embed]
  x = concat[token](first, x[(rows, columns) -> token]) + places |> dropout(drop)
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x, eps = norm_eps))
    x = x + mlp(ln2:layernorm[embed](x, eps = norm_eps))
  }
  return ln:layernorm[embed](x, eps = norm_eps)[token = 0] |> out:linear[embed, classes]
}
names huggingface on vit {
  "vit.embeddings.cls_token"[1, token, embed] = first
  "vit.embeddings.position_embeddings"[1, token, embed] = places
  "vit.embeddings.patch_embeddings.projection.weight"[embed, rgb, patch, across] = cut.w
  "vit.embeddings.patch_embeddings.projection.bias"[embed] = cut.b0
  "vit.encoder.layer.{h}.layernorm_before.weight"[embed] = h.ln1.gain
  "vit.encoder.layer.{h}.layernorm_before.bias"[embed] = h.ln1.shift
  "vit.encoder.layer.{h}.attention.attention.query.weight"[o, embed] = h.attention.wq.w[(heads, head) -> o]
  "vit.encoder.layer.{h}.attention.attention.query.bias"[o] = if biased then h.attention.wq.b0[(heads, head) -> o] else none
  "vit.encoder.layer.{h}.attention.attention.key.weight"[o, embed] = h.attention.wk.w[(heads, head) -> o]
  "vit.encoder.layer.{h}.attention.attention.key.bias"[o] = if biased then h.attention.wk.b0[(heads, head) -> o] else none
  "vit.encoder.layer.{h}.attention.attention.value.weight"[o, embed] = h.attention.wv.w[(heads, head) -> o]
  "vit.encoder.layer.{h}.attention.attention.value.bias"[o] = if biased then h.attention.wv.b0[(heads, head) -> o] else none
  "vit.encoder.layer.{h}.attention.output.dense.weight"[embed, o] = h.attention.wo.w[(heads, head) -> o]
  "vit.encoder.layer.{h}.attention.output.dense.bias"[embed] = h.attention.wo.b0
  "vit.encoder.layer.{h}.layernorm_after.weight"[embed] = h.ln2.gain
  "vit.encoder.layer.{h}.layernorm_after.bias"[embed] = h.ln2.shift
  "vit.encoder.layer.{h}.intermediate.dense.weight"[ffn, embed] = h.mlp.up.w
  "vit.encoder.layer.{h}.intermediate.dense.bias"[ffn] = h.mlp.up.b0
  "vit.encoder.layer.{h}.output.dense.weight"[embed, ffn] = h.mlp.down.w
  "vit.encoder.layer.{h}.output.dense.bias"[embed] = h.mlp.down.b0
  "vit.layernorm.weight"[embed] = ln.gain
  "vit.layernorm.bias"[embed] = ln.shift
  "classifier.weight"[classes, embed] = out.w
  "classifier.bias"[classes] = out.b0
  ignore "vit.pooler.*"
  config "model_type" = "vit"
  config "architectures" = ("ViTForImageClassification", none)
  config "image_size" = image
  config "patch_size" = patch
  config "num_channels" = (rgb, none)
  config "num_labels", "id2label" = if classes == 2 then (classes, none) else classes
  config "num_hidden_layers" = layers
  config "hidden_size" = embed
  config "num_attention_heads" = heads
  config "intermediate_size" = ffn
  config "hidden_act" = "gelu"
  config "layer_norm_eps" = norm_eps
  config "qkv_bias" = (biased, none)
}
