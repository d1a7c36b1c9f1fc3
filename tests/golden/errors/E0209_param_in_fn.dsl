dim batch = 4, embed = 8
fn scale(x[..., embed]) -> [..., embed] {
  param gain[embed] = ones
  return x * gain
}
model m(x[batch, embed]) -> [batch, embed] { return scale(x) }
