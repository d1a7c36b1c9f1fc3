dim batch, embed = 8
model m(x[batch, embed]) -> [batch, embed] { return x }
