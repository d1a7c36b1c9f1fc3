dim batch = 4, seq = 8, embed = 16
layer pool(x[batch, seq, embed]) -> [batch, embed] { return sum[seq](x) }
model m(x[batch, embed]) -> [batch, embed] { return pool(x) }
