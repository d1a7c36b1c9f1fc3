fn f(x {
  return x
}
fn g(x) {
  a = b = x
  repeat h on layers {
    c = = x
  }
  return a |> 3 + 4 b
}
axis a b
dim 3 = n
