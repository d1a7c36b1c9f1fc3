# SPDX-License-Identifier: Apache-2.0
# CLIP with ViT-B/32 (Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", 2021): images and
# texts become vectors in one space; every image of the batch is compared with every text. 151,277,313 parameters.
include "std.dsl"
dim batch = 32_768, pair = batch, rgb = 3, gh = 7, gw = 7, ph = 32, pw = 32, place = gh * gw + 1, kplace = place
dim seq = 77, kseq = seq, vocab = 49_408, layers = 12, seen = 768, read = 512, heads = 12, theads = 8
dim head = seen // heads, thead = read // theads, ffn = 4 * seen, tffn = 4 * read, shared = 512, found = 1
axis tok

layer mlp[a, f](x[..., a]) -> [..., a] {
  u = up:linear[a, f](x)
  return u * sigmoid(1.702 * u) |> down:linear[f, a]
}
layer attention[s, t, a, n, d](x[batch, s, a], mask) -> [batch, s, a] {
  q, k, v = wq:linear[a, (n, d)](x), wk:linear[a, (n, d)](x)[s -> t], wv:linear[a, (n, d)](x)[s -> t]
  return wo:linear[(n, d), a](attend[s, t, d](q, k, v, scale = size[d] ** -0.5, mask = mask))
}
fn unit(x[batch, shared]) -> [batch, shared] { return x * rsqrt(sum[shared](x * x)) }

layer picture(image[batch, gh, ph, gw, pw, rgb]) -> [batch, shared] {
  param first[tok = 1, seen], at[place, seen] = normal(0.3)
  x = stem:linear[(ph, pw, rgb), seen](image, std = 0.3, bias = false)[(gh, gw) -> tok]
  x = pre:layernorm[seen](concat[tok](first, x)[tok -> place] + at)
  repeat h in layers {
    x = x + attention[place, kplace, seen, heads, head](n1:layernorm[seen](x), true)
    x = x + mlp[seen, ffn](n2:layernorm[seen](x))
  }
  return post:layernorm[seen](x[place = 0]) |> out:linear[seen, shared](std = 0.3, bias = false)
}
layer words(i32 tokens[batch, seq]) -> [batch, shared] {
  param wte[vocab, read], at[seq, read] = normal(0.3)
  x = wte[vocab = tokens] + at
  repeat h in layers {
    x = x + attention[seq, kseq, read, theads, thead](n1:layernorm[read](x), iota[kseq] <= iota[seq])
    x = x + mlp[read, tffn](n2:layernorm[read](x))
  }
  last, end = topk[seq, found](tokens)                                  # the end of a text has the largest number
  return post:layernorm[read](x)[seq = end[found = 0]] |> out:linear[read, shared](std = 0.3, bias = false)
}
model clip(image[batch, gh, ph, gw, pw, rgb], i32 tokens[batch, seq]) -> [batch, pair] {
  param heat[] = zeros
  return exp(2.6593 + heat) * (unit(picture(image)) @shared unit(words(tokens))[batch -> pair])
}
train {
  image[batch, gh, ph, gw, pw, rgb] = synthetic(-1, 1)
  i32 tokens[batch, seq] = synthetic(0, vocab)
  z = clip(image, tokens)
  loss = (mean[batch](xent[pair](z, iota[batch])) + mean[pair](xent[batch](z, iota[pair]))) / 2
  optimizer = adamw(lr = 5e-4, betas = (0.9, 0.98), decay = 0.2, decay_if = rank > 1)
  steps = 390_000
}
