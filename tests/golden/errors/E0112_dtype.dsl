fn f(float x[a], i32 y[a]) {
  param float32 w[a] = zeros
  return x
}
