cluster c {
  intra = link(450GB/s, 2 * 3usec)
}
