include "std.dsl"
dim batch = 4, embed = 6, ffn = 8, layers = 2, vocab = 7
layer norm(x[batch, embed]) -> [batch, embed] {
  state mean0[embed] = zeros
  param gain[embed] = ones
  m = if training then mean[batch](x) else mean0
  mean0 = 0.9 * mean0 + 0.1 * m
  return (x - m) * gain
}
model net(i32 t[batch]) -> [batch, vocab] {
  param wte[vocab, embed] = normal(0.5)
  param f32 wide[embed] = ones
  x = wte[vocab = t]
  repeat h in layers {
    x = x + dropout(norm(x) |> up:linear[embed, ffn] |> gelu |> down:linear[ffn, embed], 0.1)
  }
  return (x * wide) @embed wte
}
train {
  i32 t[batch] = synthetic(0, vocab)
  i32 y[batch] = synthetic(0, vocab)
  loss = mean[batch](xent[vocab](net(t), y))
  optimizer = adamw(lr = 0.1, decay = 0.1, clip = 1.0)
  precision = mixed(compute = bf16, params = f32, grads = f32)
  steps = 10
}
