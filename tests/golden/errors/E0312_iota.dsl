dim batch = 4, huge = 4_000_000_000
model m(x[batch]) -> [batch] { return x + sum[huge](iota[huge]) }
