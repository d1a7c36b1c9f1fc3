include "mini/train.dsl"
names file on tinny {
  "wte"[vocab, embed] = wte
}
