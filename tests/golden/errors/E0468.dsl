# ---- missing
include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, embed] = wte
}
# ---- one
include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, embed] = wte
  "up.{h}"[embed, ffn] = h.mlp.up
}
# ---- state
dim batch = 4, embed = 8
layer track(x[batch, embed]) -> [batch, embed] {
  param gain[embed] = ones
  state total[embed] = zeros
  total = total * 0.9 + sum[batch](x)
  return x * gain - total
}
model m(x[batch, embed]) -> [batch, embed] { return track(x) }
names file on m { "gain"[embed] = track.gain }
