include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  z = attend[seq, kseq, embed](x, x[seq -> kseq], scale = 0.5)
  return z
}
