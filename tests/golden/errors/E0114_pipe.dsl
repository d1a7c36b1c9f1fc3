fn f(x[...], y[...]) -> [...] {
  return x |> f + y
}
