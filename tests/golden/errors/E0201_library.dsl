fn f(x) {
  return x + nosuch(zz)
}
