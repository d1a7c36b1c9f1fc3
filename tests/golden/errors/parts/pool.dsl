# Included by faulty programs: errors in here point at the call, too.
layer pool(x[..., embed]) -> [...] {
  param w[embed] = normal(0.02)
  return (x @embed w) @embed w
}
layer twice(x[..., embed]) -> [..., embed] { return x + inner:pool(x) * x }
