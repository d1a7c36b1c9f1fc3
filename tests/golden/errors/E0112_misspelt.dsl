fn f(x) {
  parm w[a] = zeros
  for i in 3 { y = x }
  retrun x
}
