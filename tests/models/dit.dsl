# SPDX-License-Identifier: Apache-2.0
# DiT-XL/2 (Peebles and Xie, "Scalable Diffusion Models with Transformers", 2023): latents of 32 x 32 x 4 in patches of 2 x 2; time
# and class shift, scale and gate every part of a block. 674,834,720 parameters (675,129,632 with the fixed position table).
include "std.dsl"
dim batch = 256, gh = 16, gw = 16, ph = 2, pw = 2, chan4 = 4, result = 2 * chan4, classes = 1001
dim patch = gh * gw, kpatch = patch, layers = 28, embed = 1152, heads = 16, head = embed // heads, ffn = 4 * embed
dim freq = 256, wave = freq // 2, quarter = embed // 4, six = 6, two = 2, other = embed
axis part

fn normed(x[batch, patch, embed]) -> [batch, patch, embed] {
  u = x - mean[embed](x)
  return u * rsqrt(mean[embed](u * u) + 1e-6)
}
layer attention(x[batch, patch, embed]) -> [batch, patch, embed] {
  q, k, v = wq:linear[embed, (heads, head)](x), wk:linear[embed, (heads, head)](x), wv:linear[embed, (heads, head)](x)
  return wo:linear[(heads, head), embed](attend[patch, kpatch, head](q, k[patch -> kpatch], v[patch -> kpatch], scale = head ** -0.5))
}
layer mlp(x[batch, patch, embed]) -> [batch, patch, embed] {
  return x |> up:linear[embed, ffn] |> gelu_tanh |> down:linear[ffn, embed]
}
fn places(i32 at[patch]) -> [patch, quarter, two] {
  angle = at * 10_000.0 ** (-iota[quarter] / quarter)
  return stack[two](sin(angle), cos(angle))
}
model dit(noisy[batch, gh, ph, gw, pw, chan4], t[batch], i32 label[batch]) -> [batch, gh, ph, gw, pw, result] {
  x = stem:linear[(ph, pw, chan4), embed](noisy)[(gh, gw) -> patch]
  rows, columns = places(iota[patch] // size[gw]), places(iota[patch] % size[gw])
  x = x + concat[part](rows[(two, quarter) -> part], columns[(two, quarter) -> part])[part -> embed]
  angle = t * 10_000.0 ** (-iota[wave] / wave)
  waves = concat[part](cos(angle)[wave -> part], sin(angle)[wave -> part])[part -> freq]
  param table[classes, embed] = normal(0.02)
  c = (waves |> t1:linear[freq, embed] |> silu)[embed -> other] |> t2:linear[other, embed]
  c = silu(c + table[classes = label])
  repeat h in layers {
    s1, c1, g1, s2, c2, g2 = unstack[six](ada:linear[embed, (six, other)](c)[other -> embed])
    x = x + g1 * attention(normed(x) * (1 + c1) + s1)
    x = x + g2 * mlp(normed(x) * (1 + c2) + s2)
  }
  s, r = unstack[two](last_ada:linear[embed, (two, other)](c)[other -> embed])
  return (last:linear[embed, (ph, pw, result)](normed(x) * (1 + r) + s))[patch -> (gh, gw)]
}
train {
  image[batch, gh, ph, gw, pw, chan4] = synthetic(-1, 1)
  noise[batch, gh, ph, gw, pw, chan4] = synthetic(-2, 2)
  t[batch] = synthetic(0, 1)
  i32 label[batch] = synthetic(0, classes)
  keep = cos(1.5 * t)
  y = dit(image * keep + noise * sqrt(1 - keep * keep), 1000 * t, label)
  said = y[result -> (two, chan4)][two = 0]                                 # the other half would be a variance
  loss = mean[batch, gh, ph, gw, pw, chan4]((said - noise) ** 2)
  optimizer = adamw(lr = 1e-4, decay = 0)
  steps = 400_000
}
