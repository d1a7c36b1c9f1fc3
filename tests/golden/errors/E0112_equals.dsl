fn f(x, k) {
  if k = 3 { y = x }
  return y
}
train {
  steps == 4
}
