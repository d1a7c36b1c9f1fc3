# ---- arithmetic
include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, embed] = 2 * wte
}
# ---- axes
include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, ffn] = wte
  "up.{h}"[o, embed] = h.mlp.up[ff -> o]
}
# ---- model
include "mini/train.dsl"
names file on tinny {
  "wte"[vocab, embed] = wte
}
# ---- no_iteration
include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, embed] = wte
  "up"[embed, ffn] = h.mlp.up
  "down.{k}"[ffn, embed] = h.mlp.down
}
# ---- unknown
include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, embed] = wtr
  "up.{h}"[embed, ffn] = h.mlp.up
  "down.{h}"[ffn, embed] = h.mlp.down
}
