# ---- param
dim batch = 4, k = 3
axis tok
model m(x[batch]) -> [batch] {
  param w[tok = k - 4] = ones
  return x + sum[tok](w)
}
# ---- zero
dim batch = 4, heads = 12, head = 8 // heads
model m(x[batch, head]) -> [batch] { return sum[head](x) }
