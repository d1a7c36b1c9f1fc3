# A model whose text is known, with states that are not finite; texts.py says what is shown.
include "std.dsl"
dim batch = 1, seq = 4, vocab = 256
fn after(t[...], from, to) -> [...] { return where(t == from, to, 0) }
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param bias[vocab] = zeros
  state count[] = 1
  state least[] = inf
  count = count * 1e30
  least = least * 2
  t = tokens
  first = after(t, 65, 195) + after(t, 195, 169) + after(t, 169, 255) + after(t, 255, 226)
  second = after(t, 226, 130) + after(t, 130, 172) + after(t, 172, 66)
  third = after(t, 66, 225) + after(t, 225, 67) + after(t, 67, 240)
  return f32(iota[vocab] == first + second + third) + bias
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
