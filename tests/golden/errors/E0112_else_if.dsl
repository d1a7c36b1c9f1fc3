fn f(x, k) {
  if k > 3 { y = x } else if k > 2 { y = 2 * x } else { y = 0 }
  return y
}
