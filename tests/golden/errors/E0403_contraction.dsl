dim batch = 4, embed = 16
model m(i32 i[batch, embed]) -> [batch] {
  return iota[embed] @embed i
}
