# ---- i32
dim batch = 4
model m(i32 ids[batch]) -> i32[batch] {
  return ids * 5_000_000_000
}
# ---- overflow
dim batch = 4, big = 10_000_000_000 * 10_000_000_000
model m(x[batch, big]) -> [batch] { return sum[big](x) }
# ---- zero
dim batch = 4, seq = 8, embed = 16
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x * (1 // (batch - 4))
}
