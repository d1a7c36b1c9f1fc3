# ---- axes
dim a1 = 2, a2 = 2, a3 = 2, a4 = 2, a5 = 2, a6 = 2, a7 = 2, a8 = 2, a9 = 2
dim b1 = 2, b2 = 2, b3 = 2, b4 = 2, b5 = 2, b6 = 2, b7 = 2, b8 = 2, b9 = 2
model m(x[a1, a2, a3, a4, a5, a6, a7, a8, a9], y[b1, b2, b3, b4, b5, b6, b7, b8, b9]) -> f32[] {
  z = x + y
  return f32(1)
}
# ---- elements
dim batch = 4, huge = 4_000_000_000, vast = 4_000_000_000
model m(x[batch]) -> [batch] {
  param w[huge, vast] = zeros
  return x + sum[huge, vast](w)
}
# ---- iota
dim batch = 4, huge = 4_000_000_000
model m(x[batch]) -> [batch] { return x + sum[huge](iota[huge]) }
