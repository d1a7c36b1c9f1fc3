dim batch = 4, big = 10_000_000_000 * 10_000_000_000
model m(x[batch, big]) -> [batch] { return sum[big](x) }
