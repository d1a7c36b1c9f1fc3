include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, embed] = wte
  "up"[embed, ffn] = h.mlp.up
  "down.{k}"[ffn, embed] = h.mlp.down
}
