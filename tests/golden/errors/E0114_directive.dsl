parallel p on c {
  mesh data = 2 * 4, tensor = 2 zero 1
  zero 1 on data 2
}
