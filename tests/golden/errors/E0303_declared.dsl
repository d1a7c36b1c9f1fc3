dim batch = 4, embed = 16
model m(x[batch, embed = 8]) -> [batch] { return sum[embed](x) }
