dim batch = 4, heads = 12, head = 8 // heads
model m(x[batch, head]) -> [batch] { return sum[head](x) }
