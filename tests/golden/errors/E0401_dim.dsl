dim batch = 4, embed = 16, half = embed / 2
model m(x[batch, half]) -> [batch] { return sum[half](x) }
