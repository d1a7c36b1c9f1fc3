fn f(x) {
  a = x b = 2
  c = 3 x
  return a
}
dim n = 4 dim m = 5
