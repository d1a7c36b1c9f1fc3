layer f[a, b](x[a]) -> {
  y = x +
}
layer (x) { return x }
parallel p {
  mesh data = 4
  shard on
}
