include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, embed] = wtr
  "up.{h}"[embed, ffn] = h.mlp.up
  "down.{h}"[ffn, embed] = h.mlp.down
}
