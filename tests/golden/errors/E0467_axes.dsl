include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, ffn] = wte
  "up.{h}"[o, embed] = h.mlp.up[ff -> o]
}
