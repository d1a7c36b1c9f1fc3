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
# ---- numbers
include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, embed] = wte
  "up.{h * h}"[embed, ffn] = h.mlp.up
  "up.{h - 1}"[embed, ffn] = h.mlp.up
  "up.{h"[embed, ffn] = h.mlp.up
  "up.{2 h}"[embed, ffn] = h.mlp.up
  "up.{h // 2}"[embed, ffn] = h.mlp.up
  "down.{0 * h}"[ffn, embed] = h.mlp.down
  "down.{h}"[ffn, embed] = h.mlp.down
  "down.{4 - 1 - h}"[ffn, embed] = h.mlp.down
  "list.{h: 7, 5, 9}"[ffn, embed] = h.mlp.down
  "list.{h: 7, h}"[ffn, embed] = h.mlp.down
}
# ---- left
include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, 2, embed] = wte
  "up.{h}.{ffn}"[embed, ffn] = h.mlp.up
  "down.{h}"[o = 3] = h.mlp.down[(ffn, embed) -> o]
  "d#"[h, ffn, embed] = h.mlp.down
}
# ---- joins
include "mini/train.dsl"
names file on tiny {
  "a.{h}"[embed, ffn] = concat[embed](h.mlp.up, h.mlp.up[embed -> o])
  "b.{h}"[embed, ffn] = concat[embed](h.mlp.up, h.mlp.up[(embed, ffn) -> ffn])
  "c.{h}"[embed, ffn] = concat[embed](h.mlp.up, h.mlp.down[ffn -> e, embed -> ffn][e -> embed])
  "d.{h}"[embed, ffn] = stack[ffn](h.mlp.up, h.mlp.up)
  "e.{h}"[embed, ffn] = h.mlp.up[embed -> ffn]
  "f.{h}"[embed, ffn] = h.mlp.up[(embed, embed) -> o]
  "g"[vocab, embed] = concat[o](wte, wte)
}
# ---- directives
include "mini/train.dsl"
names file on tiny {
  ignore
  forget "x"
  initial "none.*"
  config "embed" = embed / 0
  config "large" = 1e300 * 1e300
}
# ---- choices
include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, embed] = if size[vocab] > 3 then wtr else nothing
  "up.{h}"[embed, ffn] = if 1 then h.mlp.up else none
  "down.{h}"[ffn, embed] = if embed > 1 then none else h.mlp.down
  config "embed" = if wte then embed else none
}
# ---- keys
include "mini/train.dsl"
names file on tiny {
  "wte"[vocab, embed] = wte
  "up.{h}"[embed, ffn] = h.mlp.up
  "down.{h}"[ffn, embed] = h.mlp.down
  config "kinds.{h}", "kind" = (if h % 2 == 1 then h else none, true)
  config "kinds.{l}" = 1
  config "kinds.{h" = 1
  config "kinds.{h}" = 1e300 * 1e300
}
# ---- bounds
include "mini/train.dsl"
names file on tiny {
  "n"[vocab = 100000000000000000, embed] = wte
  "l.{h: 1000000000, 5}"[embed, ffn] = h.mlp.up
  "o.{h"[embed, ffn] = h.mlp.up
}
# ---- tuple
dim batch = 4, embed = 4
layer scale(x[batch, embed]) -> [batch, embed] { param gain[embed] = 1; return x * gain }
model m(x[batch, embed]) -> [batch, embed] {
  repeat turn in (1, 2) { x = scale(x) * turn }
  return x
}
train {
  x[batch, embed] = synthetic(0, 1)
  loss = sum[batch, embed](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
names file on m { "gain"[embed] = turn.scale.gain }
# ---- large_numbers
dim n = 40000
model m(x[n]) -> [n] { param gain[n] = 1; return x * gain }
train {
  x[n] = synthetic(0, 1)
  loss = sum[n](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 10
}
names file on m { "gain.{2147483647 * n}"[1] = gain }
