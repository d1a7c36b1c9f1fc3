include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, embed] = wte
}
