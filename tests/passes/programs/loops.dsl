include "std.dsl"
dim batch = 2, seq = 3, embed = 4, layers = 3, ffn = 5, inner = 2, turned = embed
layer mlp(x[..., embed], scale) -> [..., embed] {
  y = up:linear[embed, ffn](x) |> gelu |> down:linear[ffn, embed]
  return dropout(y, 0.2) * scale
}
model m(i32 t[batch, seq]) -> [batch, seq] {
  param wte[seq, embed], shared[embed, ffn] = normal(0.5)
  param gate[embed] = normal(1)
  x, total = wte[seq = t], 0.0 * sum[embed](wte[seq = t])
  s = tied:linear[embed, turned]
  repeat h in layers {
    x = x + mlp(n:layernorm[embed](x), 0.5) * gate
    repeat g in inner {
      x = x + s(sin(x @embed shared) @ffn shared)[turned -> embed]
    }
    total = total + sum[embed](x * x) * (h + 1)
  }
  repeat k in (2, 3) { x = x + mlp(x, k) }
  return total + sum[embed](x)
}
train {
  i32 t[batch, seq] = synthetic(0, 3)
  loss = mean[batch, seq](m(t))
  optimizer = adamw(lr = 0.1)
  steps = 1
}
