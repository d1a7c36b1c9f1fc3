# SPDX-License-Identifier: Apache-2.0
# MLP-Mixer B/16 (Tolstikhin et al., "MLP-Mixer: An all-MLP Architecture for Vision", 2021): 224 x 224 images in patches of
# 16 x 16; layers mix patches, then channels. 59,880,472 parameters with a head of 1,000 classes.
include "std.dsl"
dim batch = 64, gh = 14, gw = 14, ph = 16, pw = 16, colour = 3, classes = 1000
dim patch = gh * gw, layers = 12, embed = 768, tokens = 384, ffn = 3072

layer mix_patches(x[batch, patch, embed]) -> [batch, patch, embed] {
  return x |> up:linear[patch, tokens] |> gelu |> down:linear[tokens, patch]
}
layer mix_channels(x[batch, patch, embed]) -> [batch, patch, embed] {
  return x |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed]
}
model mixer(image[batch, gh, ph, gw, pw, colour]) -> [batch, classes] {
  x = stem:linear[(ph, pw, colour), embed](image)[(gh, gw) -> patch]
  repeat h in layers {
    x = x + mix_patches(n1:layernorm[embed](x))
    x = x + mix_channels(n2:layernorm[embed](x))
  }
  return mean[patch](norm:layernorm[embed](x)) |> head:linear[embed, classes]
}
train {
  image[batch, gh, ph, gw, pw, colour] = synthetic(-1, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](mixer(image), label))
  optimizer = adamw(lr = 1e-3, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  steps = 10_000
}
